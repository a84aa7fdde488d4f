"""Random logs of orders, through the function and both real paths: whatever the order, the result is the same."""

from pathlib import Path

from anabranch.contracts import load_declarations
from anabranch.testing import prove
from anabranch.views import load_views

JOBS = Path(__file__).parent.parent / "spark_jobs"
DECLARED = load_declarations(JOBS / "contracts")


def test_both_paths_agree():
    prove(load_views(JOBS / "views", DECLARED).get("revenue"), declarations=DECLARED, quick=True)
