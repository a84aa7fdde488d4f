"""Finds, in the text of a module, where it commits to a Delta table: by delta-rs, by Spark, by SQL, or by a file in a
table's log that it writes itself. A name alone is enough: what only looks like a commit gets a reason of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_ALWAYS: Final = {
    "write_deltalake", "create_write_transaction", "set_table_properties", "add_columns", "add_constraint",
    "drop_constraint", "add_feature", "set_table_name", "set_table_description", "set_column_metadata",
    "whenMatchedUpdate", "whenMatchedUpdateAll", "whenMatchedDelete", "whenNotMatchedInsert",
    "whenNotMatchedInsertAll", "whenNotMatchedBySourceUpdate", "whenNotMatchedBySourceDelete", "when_matched_update",
    "when_matched_update_all", "when_matched_delete", "when_not_matched_insert", "when_not_matched_insert_all",
    "when_not_matched_by_source_update", "when_not_matched_by_source_delete", "convert_to_deltalake",
    "convertToDelta", "createIfNotExists", "createOrReplace", "saveAsTable", "insertInto", "writeTo", "toTable",
    "compact", "executeCompaction", "executeZOrderBy", "z_order", "restore", "restoreToVersion", "restoreToTimestamp",
    "repair", "vacuum", "merge", "delete", "forPath", "forName", "addFeatureSupport", "upgradeTableProtocol",
}  # fmt: skip
"""Methods that commit, or prepare it, in a module that knows of Delta."""
_FUNCTIONS: Final = {"write_deltalake", "convert_to_deltalake"}
"""The same, also by their bare name, and where they are imported."""
_OF_DELTA: Final = ("deltalake", "delta")
_SQL: Final = re.compile(
    r"\s*(MERGE\s+(WITH\s+SCHEMA\s+EVOLUTION\s+)?INTO|UPDATE\s+\S+(\s+(AS\s+)?\w+)?\s+SET|DELETE\s+FROM"
    r"|INSERT\s+(INTO|OVERWRITE)|COPY\s+INTO|RESTORE\s+(TABLE\s+)?\S+\s+TO|(VACUUM|OPTIMIZE)\s+\S+|REORG\s+TABLE|TRUNCATE\s+TABLE"
    r"|ALTER\s+TABLE|CONVERT\s+TO\s+DELTA|(CREATE\s+OR\s+)?REPLACE\s+TABLE|CREATE\s+TABLE)\b",
    re.IGNORECASE,
)
_LOG_NAMES: Final = {"LOG", "commit_name", "commit_file", "log_files", "log_of"}
"""What leads to the files of a table's log."""
_LOG_TEXT: Final = re.compile(r"_delta_log|020d|\d{20}")
_KNOWS_TABLES: Final = re.compile(rf"(?i:delta)|{_LOG_TEXT.pattern}|\b({'|'.join(sorted(_LOG_NAMES))})\b")
_WRITES: Final = {
    "write", "write_text", "write_bytes", "writing", "create", "copy", "copy2", "copyfile", "copytree", "move",
    "rename", "renames", "link", "symlink", "symlink_to", "hardlink_to", "open",
}  # fmt: skip
"""Calls that give a file a name, or a content."""


@dataclass(frozen=True, slots=True, order=True)
class Commit:
    """``function``: the outermost one that holds it, with its class; empty at a module's top."""

    function: str
    form: str
    line: int


def commits_in(text: str) -> list[Commit]:
    """Everything in this module that commits, or may."""
    if not _KNOWS_TABLES.search(text):
        return []
    tree = ast.parse(text)
    delta = "delta" in text.lower()
    writes_logs = any(map(_leads_to_a_log, ast.walk(tree)))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    names = _imported(tree)
    found = set[Commit]()
    for function, node in _by_function(tree):
        for form in _forms(node, names, delta=delta, writes_logs=writes_logs):
            if id(node) not in docs or isinstance(node, ast.Call):
                found.add(Commit(function, form, getattr(node, "lineno", 0)))
    return sorted(found)


def public_functions(text: str, names: set[str]) -> set[str]:
    """The functions of a module, by names without an underscore, that call one of ``names``, or do so by another."""
    tree = ast.parse(text)
    calls = {
        node.name: {
            each.func.id for each in ast.walk(node) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)
        }
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    reached, before = set(names), set[str]()
    while reached != before:
        before = set(reached)
        reached |= {name for name, called in calls.items() if called & reached}
    return {name for name in reached if not name.startswith("_")}


def calls_of(text: str, modules: dict[str, set[str]]) -> set[tuple[str, str]]:
    """Each function of a module that names one of the functions of ``modules`` (names by module), with that name."""
    tree = ast.parse(text)
    imported, doors = dict[str, str](), dict[str, set[str]]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                known = each.asname or each.name
                if each.name in modules.get(node.module, ()):
                    imported[known] = each.name
                if (inner := f"{node.module}.{each.name}") in modules:
                    doors[known] = modules[inner]
    found = set()
    for function, node in _by_function(tree):
        match node:
            case ast.Name(id=name) if name in imported:
                found.add((function, imported[name]))
            case ast.Attribute(value=ast.Name(id=door), attr=name) if name in doors.get(door, ()):
                found.add((function, name))
    return found


def _by_function(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    def below(node: ast.AST, names: tuple[str, ...], in_function: bool) -> Iterator[tuple[str, ast.AST]]:
        if not in_function and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names, in_function = (*names, node.name), not isinstance(node, ast.ClassDef)
        yield ".".join(names), node
        for child in ast.iter_child_nodes(node):
            yield from below(child, names, in_function)

    return below(tree, (), False)


def _imported(tree: ast.Module) -> dict[str, str]:
    """What a module imports from Delta's packages, under the names that it gives."""
    return {
        each.asname or each.name: each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in _OF_DELTA
        for each in node.names
    }


def _forms(node: ast.AST, imported: dict[str, str], *, delta: bool, writes_logs: bool) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            if imported.get(name, name) in _FUNCTIONS:
                yield imported.get(name, name)
            elif writes_logs and (name in _WRITES or name.lstrip("_") in _WRITES) and _changes(node):
                yield f"a file: {name}"
        case ast.Call(func=ast.Attribute(attr=name) as function):
            if delta and name in _ALWAYS:
                yield name
            elif name == "create" and _is_a_table(function.value, imported):
                yield "DeltaTable.create"
            elif delta and name == "update" and _updates_rows(node, imported):
                yield "update"
            elif name == "format" and _writes_delta(node):
                yield "format('delta')"
            elif name in ("save", "saveAsTable", "start") and _text(_argument(node, "format")) == "delta":
                yield f"{name}(format='delta')"
            elif writes_logs and _writes_file(node, name):
                yield f"a file: {name}"
        case ast.ImportFrom(module=str(module), names=each) if module.split(".")[0] in _OF_DELTA:
            yield from (f"import of {one.name}" for one in each if one.name in _FUNCTIONS)
        case ast.Constant() | ast.JoinedStr():
            if delta and (said := _SQL.match(_text(node) or "")):
                yield f"SQL: {said[1].upper()}"


def _is_a_table(value: ast.AST, imported: dict[str, str]) -> bool:
    return any(
        (isinstance(each, ast.Name) and imported.get(each.id, each.id) == "DeltaTable")
        or (isinstance(each, ast.Attribute) and each.attr == "DeltaTable")
        for each in ast.walk(value)
    )


def _updates_rows(node: ast.Call, imported: dict[str, str]) -> bool:
    """Not the update of a dict, a set or a hash: by what is named, or by what is updated."""
    assert isinstance(node.func, ast.Attribute)
    said = {each.arg for each in node.keywords}
    about = node.func.value
    opened = {each.id for each in ast.walk(about) if isinstance(each, ast.Name)}
    return (
        bool(said & {"updates", "new_values", "predicate", "condition", "set", "commit_properties"})
        or _is_a_table(about, imported)
        or bool(opened & {"delta_table", "open_table"})
        or "table" in ast.unparse(about).lower().rpartition(".")[2]
    )


def _writes_delta(node: ast.Call) -> bool:
    """``format`` of a writer: not of a text, and not of a reader."""
    chain = {each.attr for each in ast.walk(node.func) if isinstance(each, ast.Attribute)}
    given = _text(node.args[0]) if node.args else None
    if chain & {"read", "readStream"}:
        return False
    return given == "delta" or (given is None and bool(chain & {"write", "writeStream"}))


def _writes_file(node: ast.Call, name: str) -> bool:
    if name == "replace":  # of a path; that of a text has two arguments
        return len(node.args) == 1 and not node.keywords
    return name in _WRITES and _changes(node)


def _changes(node: ast.Call) -> bool:
    name = ast.unparse(node.func).rpartition(".")[2]
    if name != "open":
        return True
    return any(set(_text(each) or "") & set("wax+") for each in [*node.args, *(k.value for k in node.keywords)])


def _argument(node: ast.Call, name: str) -> ast.AST | None:
    return next((each.value for each in node.keywords if each.arg == name), None)


def _leads_to_a_log(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _LOG_NAMES
        case ast.Constant(value=str(text)):
            return "\n" not in text and _LOG_TEXT.search(text) is not None
    return False


def _text(node: ast.AST | None) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) or "x" for part in parts)
    return None
