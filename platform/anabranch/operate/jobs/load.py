"""Loads files into a topic's landing table, submitted by the DAG ``load``. Prints its report as JSON.

Exit code 0 if every file was loaded. Called again with the same files, it lands what hasn't landed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from anabranch.contracts import load_declarations
from anabranch.core.die_with_parent import end_with_owners
from anabranch.core.engine_end import engine, leave
from anabranch.core.errors import AnabranchError, BadInput, exit_code
from anabranch.core.job_error import record_error
from anabranch.core.settings import load_settings
from anabranch.core.spark import OWN_CODE
from anabranch.ingest.files import LoadReport, load
from anabranch.ingest.files.load_files import REPORT, StoredReport


def main() -> int:
    end_with_owners()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--files", required=True, help="a JSON array of files, folders and S3 addresses")
    parser.add_argument("--report", required=True, help="the file that the report is written to, as JSON")
    args = parser.parse_args()
    settings = load_settings()
    try:
        topic = load_declarations(settings.contracts_folder).topic(args.topic)
        with engine(settings, f"anabranch-load-{topic.name}", OWN_CODE) as spark:
            report = load(spark, settings, topic, json.loads(args.files), _tell)
        REPORT.write(Path(args.report), StoredReport(report.to_json()))
        check_whole(report)
    except AnabranchError as error:
        sys.stderr.write(f"{error}\n")
        record_error(error)
        return exit_code(error)
    except Exception as error:
        record_error(error)
        raise
    return 0


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def check_whole(report: LoadReport) -> None:
    """Raises BadInput FILE_UNREADABLE if a file was refused."""
    if report.refused:
        raise BadInput(
            "FILE_UNREADABLE",
            f"{len(report.refused)} of {len(report.files)} files can't be read: "
            + "; ".join(file.error for file in report.refused[:5]),
            state=f"nothing of them was landed; {report.landed:,} rows of the others were",
            next_step="correct them, and run it again: what has landed is skipped",
        )


if __name__ == "__main__":
    leave(main())
