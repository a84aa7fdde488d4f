"""What Python could do behind Spark's back, found in the source, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from anabranch.contracts import load_declarations
from anabranch.core.errors import BadDefinition
from anabranch.core.project_folder import project_root
from anabranch.views import Registry, load_views, view
from anabranch.views.registry import collecting

pytestmark = pytest.mark.unit
DECLARED = load_declarations(project_root() / "spark_jobs" / "contracts")
DECLARATION = "@view(name='seen', version=1, events=['flight.departed'], key=['tailnum'])"


def load(folder: Path, top: str, body: str) -> Registry:
    lines = body.splitlines()
    text = "\n".join(
        [
            "from anabranch.views import view",
            "from pyspark.sql import functions as F",
            top,
            DECLARATION,
            "def seen(departed):",
            *(f"    {line}" for line in lines),
        ]
    )
    (folder / "views.py").write_text(text + "\n")
    return load_views(folder, DECLARED)


IMPURE = {
    "datetime.now": ("from datetime import datetime", "return departed.where(F.lit(datetime.now()) > 1)  # !"),
    "datetime.now by module": ("import datetime as dt", "return departed.where(F.lit(dt.datetime.now()) > 1)  # !"),
    "date.today": ("from datetime import date", "return departed.where(F.lit(date.today()) > 1)  # !"),
    "time.time": ("import time  # !", "return departed.where(F.lit(time.time()) > 1)"),
    "time from time": ("from time import time  # !", "return departed.where(F.lit(time()) > 1)"),
    "random": ("import random  # !", "return departed.limit(random.randint(1, 2))"),
    "numpy.random": ("import numpy as np", "x = np.random.rand()  # !\nreturn departed.where(F.lit(x) > 1)"),
    "os": ("import os  # !", "return departed.where(F.lit(os.environ['X']) == 'x')"),
    "pathlib": ("from pathlib import Path  # !", "return departed.where(F.lit(Path('x').read_text()) == 'x')"),
    "requests": ("import requests  # !", "return departed.where(F.lit(requests.get('x').text) == 'x')"),
    **{
        f"{library}.{function}": (
            f"import {library} as lib",
            f"x = lib.{function}('x')  # !\nreturn departed.where(F.lit(x) > 1)",
        )
        for library, function in [
            *(("pandas", name) for name in ("Timestamp.utcnow", "Period.now", "read_csv", "ExcelFile")),
            *(("numpy", name) for name in ("load", "loadtxt", "genfromtxt", "fromfile", "memmap")),
            *(("pyarrow.parquet", "read_table"), ("pyarrow.csv", "read_csv"), ("pyarrow.json", "read_json")),
            *(("pyarrow.orc", "read_table"), ("pyarrow.feather", "read_table"), ("pyarrow.dataset", "dataset")),
            *(("pyarrow.fs", "LocalFileSystem"), ("pyarrow", "memory_map"), ("pyarrow", "OSFile")),
            *(("gzip", "open"), ("gzip", "GzipFile"), ("bz2", "open"), ("lzma", "LZMAFile"), ("codecs", "open")),
        ]
    },
    **{
        f"pandas of {argument}": (
            "import pandas as pd",
            f"x = pd.{argument}  # !\nreturn departed.where(F.lit(x) > 1)",
        )
        for argument in (
            "Timestamp('now')",
            "Timestamp(ts_input=' Today')",
            "to_datetime('now')",
            "to_datetime(['today'])",
        )
    },
    "an archive": ("import zipfile  # !", "return departed.where(F.lit(zipfile.ZipFile('x').read('y')) == 'x')"),
    "lines of a file": ("from linecache import getline  # !", "return departed.where(F.lit(getline('x', 1)) == 'x')"),
    "an import inside": ("", "import socket  # !\nreturn departed.where(F.lit(socket.gethostname()) == 'x')"),
    "open": ("", "return departed.where(F.lit(open('x').read()) == 'x')  # !"),
    "eval": ("", "return eval('departed')  # !"),
    "hash": ("", "return departed.where(F.lit(hash('x')) == 1)  # !"),
    "a set's order": ("", "return departed.select(*list({'flight', 'carrier'}))  # !"),
    "a set's order in a text": ("", "x = ','.join(str(n) for n in frozenset('ab'))  # !\nreturn departed.select(x)"),
    "the clock of a place": (
        "from datetime import datetime",
        "x = datetime.fromtimestamp(0)  # !\nreturn departed.where(F.col('event_time') > x)",
    ),
    "a session": ("from pyspark.sql import SparkSession", "return SparkSession.builder.getOrCreate().range(1)  # !"),
    "a frame's session": ("", "return departed.sparkSession.range(1)  # !"),
    "global": ("n = 1", "global n  # !\nn = 2\nreturn departed"),
    "a list at the top": ("NAMES = ['AA']  # !", "return departed.where(F.col('carrier').isin(NAMES))"),
    "a dict at the top": ("NAMES = {'AA': 1}  # !", "return departed.where(F.col('flight') == NAMES['AA'])"),
    "a list that is computed": ("NAMES = sorted('AB')  # !", "return departed.where(F.col('carrier').isin(NAMES))"),
    "the date of today": ("", "return departed.where(F.expr(\"to_date(event_time) < date 'today'\"))  # !"),
    "a time of yesterday": ("", "return departed.where(\"event_time >= TIMESTAMP_NTZ ' Yesterday UTC'\")  # !"),
    "the time now, in a constant": (
        "LAST = 'event_time < timestamp\"now\"'  # !",
        "return departed.where(f'flight > 1 and {LAST}')",
    ),
    "a date in a text with gaps": ("", "n = 1\nreturn departed.where(f\"flight > {n} and day < Date'TOMORROW'\")  # !"),
    "in a helper": (
        "import time  # !\ndef helper(frame):\n    return frame.where(F.lit(time.time()) > 1)",
        "return helper(departed)",
    ),
    "in a constant": (
        "from datetime import datetime\nSTART = datetime.now()  # !",
        "return departed.where(F.col('event_time') > START)",
    ),
    "in a helper's default": (
        "import random  # !\ndef helper(frame, share=random.random()):\n    return frame.where(F.lit(share) > 1)",
        "return helper(departed)",
    ),
}


@pytest.mark.parametrize("case", IMPURE)
def test_an_impure_function_is_refused_with_the_line(tmp_path: Path, case: str) -> None:
    with pytest.raises(BadDefinition) as caught:
        load(tmp_path, *IMPURE[case])
    lines = (tmp_path / "views.py").read_text().splitlines()
    assert caught.value.code == "VIEW_IMPURE"
    assert caught.value.fields["line"] == 1 + next(i for i, line in enumerate(lines) if "# !" in line)
    assert f"views.py:{lines.index(DECLARATION) + 1}: seen v1: line " in str(caught.value)


PURE = {
    "times that are written down": (
        "from datetime import datetime, timedelta, timezone\nSTART = datetime(2013, 1, 1, tzinfo=timezone.utc)",
        "return departed.where(F.col('event_time') > START + timedelta(hours=1))",
    ),
    "constants": (
        "from types import MappingProxyType\nNAMES = ('AA', 'UA')\nMORE = MappingProxyType({'AA': 1})",
        "return departed.where(F.col('carrier').isin(*NAMES)).where(F.col('flight') > MORE['AA'])",
    ),
    "bytes in memory": (
        "import gzip\nimport pandas as pd\nimport pyarrow as pa",
        "x = pa.array([pd.to_datetime({'now': 1}['now'])])\nreturn departed.limit(len(gzip.compress(x.buffers()[1])))",
    ),
    "a list inside": ("", "names = ['AA', 'UA']\nreturn departed.where(F.col('carrier').isin(names))"),
    "a module that the view doesn't use": ("import os, time\nHOME = os.sep", "return departed"),
    "a name like a module's": ("", "time = 'event_time'\nid = 3\nreturn departed.where(F.col(time) > id)"),
    "a helper below": ("", "return helper(departed)\ndef helper(frame): return frame"),
    "a sorted set": ("", "return departed.select(*sorted({'flight', 'carrier'}), *(x for x in ('origin',)))"),
    "a date that is written down": (
        "",
        "'''From date 'today' on.'''\nreturn departed.where(\"day > date '2013-01-01' or day > timestamp 'epoch'\")",
    ),
    "a text about today": (
        "",
        "return departed.select(F.lit('today').alias('x'), F.expr(\"'date' || 'today -- date ''today'''\").alias('y'))",
    ),
    "a remark about today": ("", "return departed.where(\"flight > 1 -- date 'today'\")"),
    "a hint": ("from pyspark.sql import SparkSession", "x: SparkSession = departed\nreturn x"),
}


@pytest.mark.parametrize("case", PURE)
def test_a_pure_function_is_not(tmp_path: Path, case: str) -> None:
    assert [v.name for v in load(tmp_path, *PURE[case])] == ["seen"]


def test_code_that_the_fingerprint_does_not_see_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadDefinition) as caught:
        load(tmp_path, "from support.landed_sample import sample_views", "return sample_views()")
    assert caught.value.code == "VIEW_UNSEEN"
    assert caught.value.fields["module"] == "support.landed_sample.sample_views"
    assert caught.value.fields["line"] == 3


@pytest.mark.parametrize(
    ("top", "body"),
    [
        ("from support.landed_sample import *  # !", "return sample_views()"),
        ("from datetime import *  # !", "return departed.where(F.lit(datetime.now()) > 1)"),
        ("try:\n    from pyspark.sql.functions import *  # !\nexcept ImportError:\n    pass", "return departed"),
    ],
)
def test_a_star_import_is_refused(tmp_path: Path, top: str, body: str) -> None:
    with pytest.raises(BadDefinition) as caught:
        load(tmp_path, top, body)
    lines = (tmp_path / "views.py").read_text().splitlines()
    assert caught.value.code == "VIEW_UNSEEN"
    assert caught.value.fields["line"] == 1 + next(i for i, line in enumerate(lines) if "# !" in line)


def test_a_value_from_the_function_around_is_refused() -> None:
    def declare(limit: int) -> None:
        @view(name="closed", version=1, events="flight.departed", key="tailnum")
        def closed(departed):  # type: ignore[no-untyped-def]
            return departed.where(departed.dep_delay > limit)

    with collecting(), pytest.raises(BadDefinition, match="limit comes from the enclosing function") as caught:
        declare(15)
    assert caught.value.code == "VIEW_UNSEEN"
