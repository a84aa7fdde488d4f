"""Resolves a pinned list of Maven coordinates into a folder, with Spark's own resolver.

Usage: resolve_jars.py LIST FOLDER [--transitive]

LIST has one JAR per line and is the lock: transitive dependencies are resolved only with --transitive. A line that
ends with .java is a source file next to LIST: the compiler that comes with Spark makes a JAR of it. Afterwards the
folder has the JARs under their file names, and a copy of LIST and the sources, so that a second call does nothing. No
Spark session is started. The mirror is the one in the machine's own Ivy settings (``spark.jars.ivySettings``), else
Maven Central.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STAMP = "resolved.lock"


def coordinates(listing: Path) -> list[str]:
    """Returns the JARs of a list file: one ``group:artifact:version`` per line, ``#`` starts a comment."""
    return [entry for entry in _entries(listing) if not entry.endswith(".java")]


def sources(listing: Path) -> list[Path]:
    """Returns the source files that a list file names."""
    return [listing.with_name(entry) for entry in _entries(listing) if entry.endswith(".java")]


def _entries(listing: Path) -> list[str]:
    lines = (line.split("#", 1)[0].strip() for line in listing.read_text().splitlines())
    return [line for line in lines if line]


def stamp(listing: Path) -> str:
    """Returns what identifies the JARs of a list: its text, and that of the sources that it names."""
    return "".join(file.read_text() for file in (listing, *sources(listing)))


def ivy_home(folder: Path) -> Path:
    """Ivy's home while the JARs of ``folder`` are resolved: each has its own, because several are resolved at once."""
    return folder.parent / "ivy" / folder.name


def resolve(jvm: Any, wanted: list[str], ivy: Path, transitive: bool) -> list[Path]:
    """Returns the paths in the Ivy cache of every JAR in ``wanted``, with ``transitive`` also of their dependencies."""
    maven = getattr(getattr(jvm.org.apache.spark.util, "MavenUtils$"), "MODULE$")
    option, nil = jvm.scala.Option, getattr(getattr(jvm.scala.collection.immutable, "Nil$"), "MODULE$")
    settings = maven.buildIvySettings(option.apply(None), jvm.scala.Some(str(ivy)), False, jvm.System.err)
    found = maven.resolveMavenCoordinates(
        ",".join(wanted), settings, option.apply(None), transitive, nil, False, jvm.System.err
    )
    return [Path(str(found.apply(i))) for i in range(found.size())]


def compile_source(jvm: Any, source: Path, jar: Path, libraries: Sequence[Path] = ()) -> None:
    """Compiles a source file against Spark's own JARs and these."""
    urls = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.net.URL"), len(libraries))
    for i, library in enumerate(libraries):
        urls[i] = jvm.java.io.File(str(library)).toURI().toURL()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    own = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    compiler.setParentClassLoader(jvm.java.net.URLClassLoader(urls, own))
    compiler.cook(source.read_text())
    with zipfile.ZipFile(jar, "w") as file:
        for name, code in compiler.getBytecodes().items():
            file.writestr(zipfile.ZipInfo(f"{name.replace('.', '/')}.class"), bytes(code))


@contextmanager
def _spark_jvm() -> Iterator[Any]:
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("listing", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--transitive", action="store_true")
    args = parser.parse_args()
    args.folder = args.folder.resolve()  # Ivy refuses a relative home
    made = args.folder / STAMP
    if made.exists() and made.read_text() == stamp(args.listing):
        return
    building = args.folder.with_name(args.folder.name + ".new")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    with _spark_jvm() as jvm:
        for jar in resolve(jvm, coordinates(args.listing), ivy_home(args.folder), args.transitive):
            # Ivy writes group_artifact-version.jar; the name is kept, so two groups can't overwrite each other.
            shutil.copyfile(jar, building / jar.name)
        libraries = list(building.glob("*.jar"))
        for source in sources(args.listing):
            compile_source(jvm, source, building / f"{source.stem}.jar", libraries)
    (building / STAMP).write_text(stamp(args.listing))
    shutil.rmtree(args.folder, ignore_errors=True)
    building.rename(args.folder)
    sys.stderr.write(f"{len(list(args.folder.glob('*.jar')))} JARs in {args.folder}\n")


if __name__ == "__main__":
    main()
