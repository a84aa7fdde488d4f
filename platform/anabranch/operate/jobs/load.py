"""Loads files into a topic's landing table, submitted by the DAG ``load``.

Exit code 0 also if files were refused: the report says which. Called again with the same files, it lands what hasn't
landed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from anabranch.contracts import load_declarations
from anabranch.core.engine.die_with_parent import end_with_owners
from anabranch.core.engine.job_error import carried_out
from anabranch.core.engine.lifetime import engine, leave
from anabranch.core.settings import load_settings
from anabranch.ingest.files import REPORT, StoredReport, load


def main() -> int:
    end_with_owners()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--files", required=True, help="a JSON array of files, folders and S3 addresses")
    parser.add_argument("--report", required=True, help="the file that the report is written to")
    args = parser.parse_args()

    def work() -> None:
        settings = load_settings()
        topic = load_declarations(settings.contracts_folder).topic(args.topic)
        with engine(settings, f"anabranch-load-{topic.name}") as spark:
            report = load(spark, settings, topic, json.loads(args.files), _tell)
        REPORT.write(Path(args.report), StoredReport(report.to_json()))

    return carried_out(work)


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    leave(main())
