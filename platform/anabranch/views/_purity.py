"""Refuse impure Python in a definition: clocks, randomness, disk, network, mutable globals.

Read from the source when the view is declared, without Spark. This is best effort: a well-hidden clock passes here.
Spark functions are checked by their plan (see ``check``), whatever Python code produced them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence, MutableSet
from contextlib import suppress
from typing import Any

from anabranch.views import _sql_text
from anabranch.views._bindings import binds
from anabranch.views._set_order import SetOrder
from anabranch.views.function_source import Source
from anabranch.views.model.definition import Definition, definition_error

_IMPURE_MODULES = {
    *("asyncio", "concurrent", "ctypes", "ftplib", "getpass", "glob", "http", "importlib", "io", "locale", "logging"),
    *("multiprocessing", "os", "pathlib", "platform", "random", "secrets", "select", "shutil", "signal", "smtplib"),
    *("socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid"),
    *("dbm", "fileinput", "linecache", "mmap", "runpy", "shelve", "tarfile", "zipfile"),
    *("requests", "httpx", "aiohttp", "boto3", "confluent_kafka", "deltalake", "duckdb", "psycopg", "py4j"),
}
_IMPURE_NAMES = (
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"),
    # They use the machine's time zone; with a zone, the same can be written as an addition to a time that has one.
    *("datetime.datetime.fromtimestamp", "datetime.date.fromtimestamp"),
    *("numpy.random", "numpy.datetime64", "pandas.Timestamp.now", "pandas.Timestamp.today", "pandas.read_"),
    *("pandas.Timestamp.utcnow", "pandas.Period.now", "pandas.HDFStore", "pandas.ExcelFile"),
    *("numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "numpy.fromfile", "numpy.memmap"),
    *("pyarrow.parquet", "pyarrow.csv", "pyarrow.json", "pyarrow.orc", "pyarrow.feather", "pyarrow.dataset"),
    *("pyarrow.fs", "pyarrow.memory_map", "pyarrow.OSFile"),
    # Their compress and decompress are of bytes in memory.
    *("gzip.open", "gzip.GzipFile", "bz2.open", "bz2.BZ2File", "lzma.open", "lzma.LZMAFile", "codecs.open"),
    *(
        "pyspark.SparkContext",
        "pyspark.sql.SparkSession",
        "pyspark.sql.session",
        "anabranch.spark",
        "anabranch.core.spark",
        "anabranch.core.engine.spark",
        "anabranch.read",
    ),
)
_TIMES_OF_PANDAS = {"pandas.Timestamp", "pandas.to_datetime"}
"""Given ``now`` or ``today``, they are clocks."""
_LIBRARIES = {"anabranch", "numpy", "pandas", "pyarrow", "pyspark", "delta"}
_BUILTINS = {"open", "input", "exec", "eval", "compile", "__import__", "globals", "vars", "id", "hash", "print"}
_SESSION = {"sparkSession", "sql_ctx", "rdd", "_jdf", "_sc"}
_HELP = "compute rows from the events only: same events, same rows, whenever and wherever it runs"


def check_python(view: Definition, source: Source) -> None:
    """Raises BadDefinition VIEW_IMPURE or VIEW_UNSEEN, with the line of the first problem. Of a query in SQL, only its
    text is read."""
    for text, line in _texts(source):
        if relative := _sql_text.relative_time(text):
            what, at = relative
            raise definition_error(
                "VIEW_IMPURE",
                view,
                f"{what} is another time in each run",
                line=source.line_in_file(at) if source.sql is not None else line,
                next_step=_HELP,
            )
    if source.sql is not None:
        return
    for star in source.star_imports:
        raise definition_error(
            "VIEW_UNSEEN",
            view,
            f"'{ast.unparse(star)}' hides what the names of this file are",
            line=star.lineno,
            next_step="import what the view needs by name",
            module=star.module,
        )
    for name, (path, line) in source.imported.items():
        _check_import(view, name, path, line)
    stored = {
        n.id for t in source.trees for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    known = (
        stored
        | {name for name, _ in source.used}
        | {a.arg for a in ast.walk(source.function) if isinstance(a, ast.arg)}
    )
    closed = _closed_over(view.function)
    values = {**view.function.__globals__, **closed}
    order = SetOrder.of(source, values)
    for tree in source.trees:
        for node in ast.walk(tree):
            reason = _problem(node, source, known) or order.problem(node)
            if reason:
                raise definition_error("VIEW_IMPURE", view, reason, line=getattr(node, "lineno", None), next_step=_HELP)
    _check_constants(view, source, values)
    for name in sorted(closed.keys() - {name for name, _ in source.used}):
        raise definition_error(
            "VIEW_UNSEEN", view, f"{name} comes from the enclosing function: its value isn't in the source"
        )


def _texts(source: Source) -> Iterator[tuple[str, int]]:
    """The texts that may be SQL, each with its first line: the query, or every string but docstrings."""
    if source.sql is not None:
        yield source.sql, 1
        return
    nodes = [node for tree in source.trees for node in ast.walk(tree)]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value, node.lineno


def _check_import(view: Definition, name: str, path: str, line: int) -> None:
    root = path.split(".")[0]
    if root in _IMPURE_MODULES:
        raise definition_error(
            "VIEW_IMPURE", view, f"{name!r} comes from the module {root}", line=line, next_step=_HELP
        )
    if root not in _LIBRARIES and root not in sys.stdlib_module_names:
        raise definition_error(
            "VIEW_UNSEEN",
            view,
            f"{name!r} comes from {path}, where a change would not change the fingerprint",
            line=line,
            next_step="move what the view needs into the view's own file",
            module=path,
        )


def _problem(node: ast.AST, source: Source, known: set[str]) -> str:
    match node:
        case ast.Global() | ast.Nonlocal():
            return f"it changes {', '.join(node.names)}, which outlives the call"
        case ast.Name(id=name) if name in _BUILTINS and name not in known:
            return f"it uses {name}()"
        case ast.Call(func=called) if source.dotted(called) in _TIMES_OF_PANDAS and _takes_now(node):
            return f"{ast.unparse(node)} is another time in each run"
        case ast.Attribute(attr=attr) if attr in _SESSION:
            return f"it accesses the Spark session by .{attr}"
        case ast.Attribute() | ast.Name():
            path = source.dotted(node) or ""
            impure = any(
                path == bad or path.startswith(bad if bad.endswith("_") else f"{bad}.") for bad in _IMPURE_NAMES
            )
            return f"it uses {path}" if impure else ""
        case _:
            return ""


def _takes_now(call: ast.Call) -> bool:
    first = next(iter([*call.args, *(each.value for each in call.keywords if each.arg in ("ts_input", "arg"))]), None)
    given = first.elts if isinstance(first, ast.List | ast.Tuple) else [first]
    texts = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return any(text.strip().lower() in ("now", "today") for text in texts)


def _check_constants(view: Definition, source: Source, values: Mapping[str, Any]) -> None:
    """Values from outside the function must not change between the runs of both paths."""
    for name, node in source.used:
        literal = (
            isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, _LITERALS) and name in binds(node)
        )
        if literal or isinstance(values.get(name), _MUTABLE):
            raise definition_error(
                "VIEW_IMPURE",
                view,
                f"{name} is mutable: it can change between two runs of the view",
                line=node.lineno,
                next_step="make it a tuple, a MappingProxyType or a frozenset (sorted(...) when you iterate it), or "
                "build it inside the function",
            )


def _closed_over(function: Callable[..., Any]) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # the name is bound later
            found[name] = cell.cell_contents
    return found


_LITERALS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_MUTABLE = (MutableMapping, MutableSequence, MutableSet)
