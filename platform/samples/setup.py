"""Builds the wheel with the sample's contracts and views in it; their source is spark_jobs/, two folders above."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

JOBS = Path(__file__).resolve().parents[2] / "spark_jobs"


class WithSample(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for part in ("contracts", "views", "next"):
                target = Path(self.build_lib) / "anabranch_samples" / "project" / part
                ignored = shutil.ignore_patterns("__pycache__", "gallery")
                shutil.rmtree(target, ignore_errors=True)  # of an earlier build
                shutil.copytree(JOBS / part, target, ignore=ignored)


setup(cmdclass={"build_py": WithSample})
