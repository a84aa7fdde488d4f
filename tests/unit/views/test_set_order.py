"""A set has another order in each process: what takes its elements in order is refused, what doesn't is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from anabranch.contracts import load_declarations
from anabranch.core.errors import BadDefinition
from anabranch.core.project_folder import project_root
from anabranch.views import load_views

pytestmark = pytest.mark.unit
DECLARED = load_declarations(project_root() / "spark_jobs" / "contracts")
FROZEN = "NAMES = frozenset({'origin', 'dest'})"


def declare(folder: Path, top: str, body: str) -> None:
    lines = [
        "from functools import reduce",
        "from anabranch.views import view",
        "from pyspark.sql import functions as F",
        top,
        "@view(name='seen', version=1, events='flight.departed', key='tailnum')",
        "def seen(departed, item=None):",
        *(f"    {line}" for line in body.splitlines()),
    ]
    (folder / "views.py").write_text("\n".join(lines) + "\n")
    load_views(folder, DECLARED)


IN_ORDER = {
    "arguments": ("", "return departed.select(F.concat_ws('-', *{'origin', 'dest'}))  # !"),
    "a loop": (
        "",
        "for c in {'origin', 'dest'}:  # !\n    departed = departed.withColumn('x', F.col(c))\nreturn departed",
    ),
    "a list": ("", "return departed.select([F.col(c) for c in {'origin', 'dest'}])  # !"),
    "a dict": ("", "return departed.withColumns({c: F.col(c) for c in {'origin', 'dest'}})  # !"),
    "an inner loop": ("", "return departed.select([F.col(c) for n in 'ab' for c in {n, 'x'}])  # !"),
    "a constant as arguments": (FROZEN, "return departed.select(F.concat_ws('-', *NAMES))  # !"),
    "a constant in a list": (FROZEN, "return departed.select(list(NAMES))  # !"),
    "a constant in a loop": (FROZEN, "return departed.select(*[c for c in NAMES])  # !"),
    "a constant in a text": (FROZEN, "return departed.selectExpr(','.join(NAMES))  # !"),
    "a constant in an f-string": (FROZEN, "return departed.select(F.lit(f'{NAMES}'))  # !"),
    "a constant that is computed": (
        "def names(): return frozenset('ab')\nNAMES = names()",
        "return departed.select(*NAMES)  # !",
    ),
    "a constant of two": (
        f"{FROZEN}\nMORE = NAMES | {{'x'}} if False else NAMES",
        "return departed.select(*MORE)  # !",
    ),
    "a constant below": ("", "return departed.select(*NAMES)  # !\nNAMES = frozenset('ab')"),
    "a local name": ("", "names = {'origin'}\nnames |= {'dest'}\nreturn departed.select(*names)  # !"),
    "a difference": (FROZEN, "rest = set(departed.columns) - NAMES\nreturn departed.select(*rest)  # !"),
    "a union": (FROZEN, "return departed.select(*NAMES.union(departed.columns))  # !"),
    "two names": ("", "a, b = {'origin', 'dest'}  # !\nreturn departed.select(a, b)"),
    "map": (FROZEN, "return departed.select(*map(F.col, NAMES))  # !"),
    "reduce": (FROZEN, "return departed.select(reduce(F.concat, NAMES))  # !"),
    "a text among others": (FROZEN, "return departed.where(F.col('origin').isin('-'.join(NAMES)))  # !"),
    "in a helper": (
        f"{FROZEN}\ndef chosen(frame):\n    return frame.select(*NAMES)  # !",
        "return chosen(departed)",
    ),
}


@pytest.mark.parametrize("case", IN_ORDER)
def test_the_order_of_a_set_is_refused_with_the_line(tmp_path: Path, case: str) -> None:
    with pytest.raises(BadDefinition, match="depends on the order of a set") as refused:
        declare(tmp_path, *IN_ORDER[case])
    lines = (tmp_path / "views.py").read_text().splitlines()
    assert refused.value.code == "VIEW_IMPURE"
    assert refused.value.fields["line"] == 1 + next(n for n, line in enumerate(lines) if "# !" in line)


ANY_ORDER = {
    "sorted": (FROZEN, "return departed.select(*sorted(NAMES), *sorted(F.lit(c) for c in NAMES if c))"),
    "sorted lists": (FROZEN, "return departed.select(*sorted(list(NAMES)), *sorted([*NAMES, 'x']))"),
    "sorted, in a loop": (
        FROZEN,
        "for c in sorted(NAMES):\n    departed = departed.withColumn(c, F.col(c))\nreturn departed",
    ),
    "membership": (FROZEN, "return departed.select([c for c in departed.columns if c in NAMES and c not in {'x'}])"),
    "isin": (FROZEN, "return departed.where(F.col('origin').isin(sorted(NAMES)) | F.col('dest').isin({'JFK', 'LGA'}))"),
    "isin of arguments": (FROZEN, "return departed.where(F.col('origin').isin(*NAMES) | F.col('x').isin([*NAMES]))"),
    "isin of a list": (FROZEN, "return departed.where(F.col('x').isin([c.lower() for c in NAMES], list(NAMES)))"),
    "drop": (FROZEN, "return departed.drop(*NAMES).dropna(subset=[c for c in NAMES])"),
    "a set of a set": (FROZEN, "names = {c.lower() for c in NAMES} | {*NAMES}\nreturn departed.select(*sorted(names))"),
    "numbers of it": (
        FROZEN,
        "x = len(NAMES) + max(len(c) for c in NAMES) + sum(map(len, NAMES))\nreturn departed.limit(x)",
    ),
    "conditions": (FROZEN, "x = any(c == 'x' for c in NAMES) and all(NAMES)\nreturn departed.where(F.lit(x))"),
    "least": (FROZEN, "return departed.select(F.least(*NAMES), F.greatest(*(F.col(c) for c in NAMES)))"),
    "a name of two things": ("", "item = {1}\nitem = sorted(item)\nreturn departed.select(*[F.lit(n) for n in item])"),
    "a parameter": ("item = frozenset({1})", "return departed.select(*[F.lit(n) for n in item or ()])"),
    "another name in a helper": (
        f"{FROZEN}\ndef lit(NAMES): return [F.lit(n) for n in NAMES]",
        "return departed.select(*lit(('x',)))",
    ),
    "a list that isn't a set": ("NAMES = ('origin',)", "return departed.select(*NAMES, *[c for c in NAMES])"),
}


@pytest.mark.parametrize("case", ANY_ORDER)
def test_what_is_the_same_in_any_order_is_not(tmp_path: Path, case: str) -> None:
    declare(tmp_path, *ANY_ORDER[case])


def test_who_is_told_to_take_a_frozenset_is_told_to_sort_it(tmp_path: Path) -> None:
    with pytest.raises(BadDefinition, match="NAMES is mutable") as refused:
        declare(tmp_path, "NAMES = {'origin', 'dest'}", "return departed.where(F.col('origin').isin(*NAMES))")
    assert "a frozenset (sorted(...) when you iterate it)" in refused.value.next_step
