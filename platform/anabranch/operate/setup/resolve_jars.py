"""Resolves a pinned list of Maven coordinates into a folder, with Spark's own resolver.

Usage: resolve_jars.py LIST FOLDER [--transitive]

LIST has one JAR per line and is the lock: transitive dependencies are resolved only with --transitive. Afterwards the
folder has the JARs under their file names, and a copy of LIST, so that a second call does nothing. No Spark session is
started. The mirror is the one in the machine's own Ivy settings (``spark.jars.ivySettings``), else Maven Central.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from pyspark.java_gateway import launch_gateway

STAMP = "resolved.lock"


def coordinates(listing: Path) -> list[str]:
    """Returns the coordinates of a list file: one ``group:artifact:version`` per line, ``#`` starts a comment."""
    lines = (line.split("#", 1)[0].strip() for line in listing.read_text().splitlines())
    return [line for line in lines if line]


def resolve(wanted: list[str], ivy_home: Path, transitive: bool) -> list[Path]:
    """Returns the paths in the Ivy cache of every JAR in ``wanted``, with ``transitive`` also of their dependencies."""
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    try:
        jvm = gateway.jvm
        maven = getattr(getattr(jvm.org.apache.spark.util, "MavenUtils$"), "MODULE$")
        option, nil = jvm.scala.Option, getattr(getattr(jvm.scala.collection.immutable, "Nil$"), "MODULE$")
        ivy = jvm.scala.Some(str(ivy_home))
        settings = maven.buildIvySettings(option.apply(None), ivy, False, jvm.System.err)
        found = maven.resolveMavenCoordinates(
            ",".join(wanted), settings, option.apply(None), transitive, nil, False, jvm.System.err
        )
        return [Path(str(found.apply(i))) for i in range(found.size())]
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
    stamp = args.folder / STAMP
    if stamp.exists() and stamp.read_text() == args.listing.read_text():
        return
    building = args.folder.with_name(args.folder.name + ".new")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    ivy_home = args.folder.parent / "ivy"
    jars = resolve(coordinates(args.listing), ivy_home, args.transitive)
    for jar in jars:
        # Ivy writes group_artifact-version.jar; the name is kept, so two groups can't overwrite each other.
        shutil.copyfile(jar, building / jar.name)
    shutil.copyfile(args.listing, building / STAMP)
    shutil.rmtree(args.folder, ignore_errors=True)
    building.rename(args.folder)
    sys.stderr.write(f"{len(jars)} JARs in {args.folder}\n")


if __name__ == "__main__":
    main()
