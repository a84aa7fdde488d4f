"""Which code commits to a table: writers that ask the log after an error, and exceptions that each have a reason."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from support.commit_kinds import CREATE, KINDS
from support.commit_sites import calls_of, commits_in, public_functions
from support.our_packages import PACKAGE, SAMPLES, inside, modules

pytestmark = pytest.mark.unit
ROOT = Path(__file__).parents[3]

COMMITTING = {"lake/commits.py", "lake/file_commits.py"}
"""Where commits are made, each through ``commit_or_confirm``."""
MIRROR = (
    "a mirror belongs to one replay, which alone writes it: it gives landing's own commits their own numbers, a repeat "
    "finds them there, and nothing is taken away after an error"
)
EXCEPTIONS = {
    "change/replay/landing_mirror.py": ("a file", MIRROR),
    "lake/log/archived_commits.py": ("a file", "moves commits that were made long ago, under their own names"),
    "lake/log/version_checksum.py": ("a file", "a .crc file, once its commit is made"),
    "operate/setup/_archive_classes.py": (
        "format('delta')",
        "a table in a folder of its own, which nobody reads: only the classes that it loads are kept",
    ),
    "certify/_version_rows.py": ("SQL: CREATE TABLE", "tables of DuckDB in memory, to compare two versions"),
    "platform/samples/anabranch_samples/oracle.py": ("SQL: ", "tables of DuckDB in memory: what a reader should see"),
}
"""What looks like a commit, and why it needs no question to the log: the only form that it may have, and the reason."""


def files() -> dict[str, Path]:
    """All of our code that runs: both packages, what ``anabranch init`` copies, DAGs, and mains of Spark jobs."""
    found = [file for folder in ("platform", "dags", "spark_jobs") for file in sorted((ROOT / folder).rglob("*.py"))]
    return {str(file.relative_to(PACKAGE if PACKAGE in file.parents else ROOT)): file for file in found}


def test_no_other_module_commits_by_itself() -> None:
    found = [
        (name, commit)
        for name, file in files().items()
        for commit in commits_in(file.read_text())
        if name not in COMMITTING and not commit.form.startswith(EXCEPTIONS.get(name, ("nothing",))[0])
    ]
    assert not found
    assert all("commit_or_confirm" in (PACKAGE / name).read_text() for name in COMMITTING)


def test_each_exception_is_one() -> None:
    looked_at = files()
    assert {name for name in EXCEPTIONS if not commits_in(looked_at[name].read_text())} == set()


def test_all_folders_of_code_are_looked_at() -> None:
    looked_at = files()
    assert {"dags/repair.py", "spark_jobs/landing.py", "platform/samples/anabranch_samples/oracle.py"} <= {*looked_at}
    assert {*map(inside, modules(PACKAGE).values())} <= {*looked_at}
    assert all(file in looked_at.values() for file in modules(SAMPLES).values())


@pytest.mark.parametrize(
    "offence",
    [
        "write_deltalake(t, rows, mode='append')",
        "deltalake.write_deltalake(t, rows)",
        "DeltaTable.create(t, rows)",
        "deltalake.DeltaTable.create(t, rows)",
        "DeltaTable.createIfNotExists(spark).location(t).execute()",
        "DeltaTable(t).update(updates={'a': '1'})",
        "DeltaTable(t).update(given)",
        "delta_table(t).update({'a': '1'}, 'b = 2')",
        "table.update(condition='a = 1', set={'a': '2'})",
        "self._table.update({'a': '1'})",
        "DeltaTable(t).delete('a = 1')",
        "DeltaTable(t).merge(rows, 'a = b')",
        "merger.when_matched_update_all().execute()",
        "DeltaTable.forPath(spark, t).alias('t')",
        "DeltaTable(t).optimize.compact()",
        "DeltaTable(t).optimize.z_order(['a'])",
        "DeltaTable(t).vacuum()",
        "DeltaTable(t).restore(3)",
        "DeltaTable(t).repair()",
        "DeltaTable(t).alter.add_columns([])",
        "DeltaTable(t).alter.add_constraint({'a': 'b'})",
        "DeltaTable(t).create_write_transaction([], 'append', schema, [])",
        "frame.write.format('delta').mode('append').save(t)",
        "frame.write.mode('append').format(KIND).save(t)",
        "writer.format('delta')",
        "frame.write.save(t, format='delta')",
        "frame.write.saveAsTable('delta.x')",
        "frame.write.insertInto('x')",
        "frame.writeTo('delta.x').append()",
        "frame.writeStream.format('delta').start(t)",
        "frame.writeStream.option('a', 'b').toTable('x')",
        "frame.writeStream.start(t, format='delta')",
        "spark.sql('MERGE INTO delta.`x` USING y ON a = b WHEN MATCHED THEN DELETE')",
        "spark.sql('  update delta.`x` set a = 1')",
        "spark.sql(f'UPDATE {t} AS t SET a = 1')",
        "spark.sql(f'DELETE FROM delta.`{t}`')",
        "spark.sql('INSERT INTO x VALUES (1)')",
        "spark.sql('INSERT OVERWRITE x SELECT 1')",
        "spark.sql(f'OPTIMIZE delta.`{t}`')",
        "spark.sql(f'ALTER TABLE delta.`{t}` ADD COLUMNS (a INT)')",
        "query = f'DELETE FROM {t}'",
        "(log / '_delta_log' / name).write_text(text)",
        "(t / LOG / commit_name(3)).write_bytes(text)",
        "draft.rename(t / LOG / commit_name(3))",
        "draft.replace(t / '_delta_log' / '00000000000000000003.json')",
        "os.link(draft, f'{t}/_delta_log/{version:020d}.json')",
        "os.rename(draft, f'{t}/_delta_log/x.json')",
        "storage_of(t).create(log_of(table) / name, text)",
        "shutil.copy2(draft, t / '_delta_log')",
        "(t / LOG / commit_name(3)).open('w').write(text)",
        "open(t / LOG / commit_name(3), 'x')",
    ],
)
def test_each_way_to_commit_is_found(offence: str) -> None:
    assert commits_in(f"import deltalake\n\ndef write(t):\n    {offence}\n")


def test_a_commit_under_another_name_is_found() -> None:
    imported = "from deltalake import DeltaTable as T, write_deltalake as put"
    assert [commit.form for commit in commits_in(f"{imported}\n\ndef write(t):\n    put(t, 1)\n    T.create(t)\n")] == [
        "import of write_deltalake",
        "DeltaTable.create",
        "write_deltalake",
    ]


@pytest.mark.parametrize(
    "innocent",
    [
        "spark.read.format('delta').load(t)",
        "spark.readStream.option('a', 1).format('delta').load(t)",
        "frame.write.mode('overwrite').parquet(t)",
        "'{}'.format(t)",
        "known.update({'a': 1})",
        "hashlib.sha256().update(b'x')",
        "spark.sql('SELECT a FROM x')",
        "text = t.replace('a', 'b')",
        "path = t / '_delta_log' / '00000000000000000003.json'",
        "'''Update x SET y'''",
        "json.loads((t / LOG / commit_name(3)).open().read())",
    ],
)
def test_what_only_reads_is_not(innocent: str) -> None:
    assert not commits_in(f"import deltalake\n\ndef read(t):\n    {innocent}\n")


def sites() -> dict[str, set[str]]:
    """The functions that commit for others, by their modules: what the guard finds in the two that may."""
    texts = {module: (PACKAGE / module).read_text() for module in COMMITTING}
    return {
        module: public_functions(text, {commit.function for commit in commits_in(text)})
        for module, text in texts.items()
    }


def writers() -> set[tuple[str, str, str]]:
    """Who calls them: module, function, and which."""
    asked = {f"anabranch.{module.removesuffix('.py').replace('/', '.')}": names for module, names in sites().items()}
    return {
        (name.removeprefix("platform/samples/"), *call)
        for name, file in files().items()
        for call in calls_of(file.read_text(), asked)
    }


def rows(start: str) -> list[list[str]]:
    """The rows of the tables of faults.md whose header begins with ``start``."""
    page = (ROOT / "docs/faults.md").read_text().split("## Commits, site by fault")[1].split("\n## ")[0]
    tables = [table for table in page.split("\n\n") if table.startswith(f"| {start}")]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for table in tables for line in table.splitlines()[2:]
    ]


def test_the_table_of_faults_has_each_site_and_each_kind() -> None:
    found = rows("site")
    assert len(found) == 2 * len({(site, kind) for site, kind, *_ in found}), "once in each of the two tables"
    assert {site for site, *_ in found} == {
        f"`{module}: {name}`" for module, names in sites().items() for name in names
    }
    assert {kind for _, kind, *_ in found} == {CREATE, *KINDS}


def test_the_table_of_faults_has_each_writer() -> None:
    told = set()
    for writer, called, what, tests in rows("writer"):
        module, _, functions = writer.strip("`").partition(": ")
        assert what
        named = re.findall(r"`(.+?\.py)`", tests)
        assert named or tests.startswith("none: ")
        assert all((ROOT / "tests" / test).exists() for test in named), tests
        told |= {(module, function, name) for function in functions.split(", ") for name in called.split(", ")}
    found = writers()
    assert found <= told, found - told
    assert {(module, function) for module, function, _ in told} == {(module, function) for module, function, _ in found}


def test_each_cell_of_the_table_of_faults_names_a_test_that_tries_it() -> None:
    tried = {letter: tried_by(*test.strip("`").split("::")) for letter, test in rows("|")}
    for _, kind, *cells in rows("site"):
        for cell in cells:
            letters = re.search(r"\(([A-Z, ]+)\)$", cell)
            assert letters, (kind, cell)
            for letter in letters[1].split(", "):
                assert kind in tried[letter], (kind, cell)


def tried_by(file: str, test: str) -> set[str]:
    """The kinds of commits that a test is run with."""
    tree = ast.parse((ROOT / "tests" / file).read_text())
    (found,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == test)
    kinds = {ast.unparse(each) for each in found.decorator_list}
    if "pytest.mark.parametrize('kind', [CREATE, *KINDS])" in kinds:
        return {CREATE, *KINDS}
    if "pytest.mark.parametrize('kind', KINDS)" in kinds:
        return {*KINDS}
    assert "creat" in test or "makes_the_table" in test
    return {CREATE}
