"""Builds the wheel with the sample domain in it (``anabranch init --sample flights``); its source is spark_jobs/."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent


class WithSample(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for part in ("contracts", "views"):
                target = Path(self.build_lib) / "anabranch" / "apps" / "sample" / part
                ignored = shutil.ignore_patterns("__pycache__", "gallery")
                shutil.copytree(HERE / "spark_jobs" / part, target, ignore=ignored, dirs_exist_ok=True)


setup(cmdclass={"build_py": WithSample})
