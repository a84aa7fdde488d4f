"""Builds the docs site from our pages and docstrings into build/docs: `make docs`. Reaches no network.

The pages are read as GitHub reads them, unchanged: a copy of them in build/docs-source has the same folders, so their
links lead to the same pages. A warning (a link to nothing, a page in no table of contents) fails the build.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PAGES = ("*.md", "LICENSE", "docs/**/*.md", "docs/**/*.png", "docs/**/*.svg", "benchmarks/*.md")


def build(site: Path) -> int:
    """Write the site to the folder ``site``; returns 0, or the exit code of Sphinx if anything is wrong."""
    source = site.with_name(f"{site.name}-source")
    for old in (site, source):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(HERE / "pages", source)
    for page in sorted(found for pattern in PAGES for found in ROOT.glob(pattern)):
        target = source / page.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(page, target)
    options = ["--quiet", "--fail-on-warning", "--keep-going", "--builder", "html", "--conf-dir", str(HERE)]
    command = [sys.executable, "-m", "sphinx", *options, "--doctree-dir", f"{source}/.doctrees", str(source), str(site)]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "docs"))
