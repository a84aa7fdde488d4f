"""Views in ``.sql`` files: what the header says, what is refused before Spark is there, and who finds the file."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from anabranch.apps.airflow.static_views import declared_views
from anabranch.apps.web._known_views import known_views
from anabranch.compute.speed._definition_watcher import DefinitionWatcher
from anabranch.contracts import load_declarations
from anabranch.core.errors import AnabranchError, BadDefinition
from anabranch.core.project_folder import project_root
from anabranch.core.settings import load_settings
from anabranch.lake.layout import VersionRef
from anabranch.operate.runtime._services import declares_views
from anabranch.testing._diagnosis import called_names
from anabranch.views import View, load_views, view
from anabranch.views._sql_text import normalised, problem, tokens
from anabranch.views.definition_registry import definition_lines, is_registered, write_definition
from anabranch.views.function_source import read
from anabranch.views.registered_definition import registered_view
from anabranch.views.registry import readable_views

pytestmark = pytest.mark.unit
DECLARED = load_declarations(project_root() / "spark_jobs" / "contracts")
HEADER = """\
-- view: counted
-- version: 2
-- events: flight.departed, flight.arrived
-- key: hour, origin
-- partition by: hour
-- lookback: 36 hours
-- lookahead: 1 day
-- refresh: partitions
-- closes: true
-- tables: flight.scheduled
-- doc: Departures,
--   per hour.
"""
QUERY = "\nSELECT a -- the hour\nFROM flight_departed, flight_arrived\n"
SHORT = "-- view: counted\n-- version: 1\n-- events: flight.departed\n-- key: a\n"


def load(folder: Path, text: str) -> View:
    (folder / "counted.sql").write_text(text)
    (found,) = load_views(folder, DECLARED)
    return found


def test_the_header_is_the_declaration(tmp_path: Path) -> None:
    found = load(tmp_path, HEADER + QUERY)
    assert (found.name, found.version, found.key, found.partition_by) == ("counted", 2, ("hour", "origin"), "hour")
    assert found.events == ("flight.departed", "flight.arrived", "flight.scheduled")
    assert found.tables == ("flight.scheduled",)
    assert (found.lookback, found.lookahead) == (timedelta(hours=36), timedelta(days=1))
    assert (found.refresh, found.closes) == ("partitions", True)
    assert str(found.origin) == f"{tmp_path / 'counted.sql'}:1"
    assert read(found.function).tables == ("flight_departed", "flight_arrived", "flight_scheduled")


@pytest.mark.parametrize(
    ("text", "code", "said", "line"),
    [
        ("SELECT 1", "VIEW_HEADER", "there is no header", 1),
        ("", "VIEW_HEADER", "there is no header", 1),
        ("\n-- view: counted\n-- version: 1\nSELECT 1", "VIEW_HEADER", "the header has no events, key", 2),
        (SHORT.replace("a\n", "\n") + "SELECT 1", "VIEW_HEADER", "the header has no key", 1),
        (SHORT + "-- partition: a\nSELECT 1", "VIEW_HEADER", "'partition' is no field of the header", 5),
        (SHORT + "-- a remark\nSELECT 1", "VIEW_HEADER", "'-- a remark' is no field of the header", 5),
        (SHORT + "-- key: b\nSELECT 1", "VIEW_HEADER", "'key' is given twice", 5),
        (SHORT.replace("version: 1", "version: one") + "SELECT 1", "VIEW_HEADER", "version 'one' is no number", 2),
        (SHORT + "-- closes: yes\nSELECT 1", "VIEW_HEADER", "closes 'yes'", 5),
        (SHORT, "VIEW_SQL", "there is no query", 5),
        (SHORT + "SELECT 1;\n\nSELECT 2", "VIEW_SQL", "there is more than one statement", 7),
        (SHORT + "\nINSERT INTO x SELECT 1", "VIEW_SQL", "INSERT is not a query", 6),
        (SHORT + "create table x as select 1", "VIEW_SQL", "CREATE is not a query", 5),
        (SHORT + "SET a = b", "VIEW_SQL", "SET is not a query", 5),
        (SHORT + "BEGIN SELECT 1; END", "VIEW_SQL", "there is more than one statement", 5),
        (SHORT + "SELECT '${spark.app.name}'", "VIEW_SQL", "takes a value from the session", 5),
        (SHORT + "SELECT ${spark.app.name}", "VIEW_SQL", "takes a value from the session", 5),
        (
            SHORT + "\nSELECT * FROM flight_departed\nWHERE event_time >= TIMESTAMP 'yesterday'",
            "VIEW_IMPURE",
            "TIMESTAMP 'yesterday' is another time in each run",
            7,
        ),
        (SHORT + "SELECT 1 -- of\nWHERE day < date\n r'Today'", "VIEW_IMPURE", "date r'Today' is another time", 6),
        (SHORT.replace("counted", "Counted") + "SELECT 1", "VIEW_NAME", "'Counted'", None),
        (SHORT.replace("flight.departed", "departed") + "SELECT 1", "VIEW_EVENTS", "['departed']", None),
        (SHORT.replace("flight.departed", "no.such") + "SELECT 1", "VIEW_EVENTS", "no.such", None),
        (SHORT.replace("events: ", "events: flight.departed, ") + "SELECT 1", "VIEW_EVENTS", "flight_departed", None),
        (SHORT + "-- lookback: soon\nSELECT 1", "VIEW_DURATION", "soon", None),
        (SHORT + "-- refresh: never\nSELECT 1", "VIEW_REFRESH", "never", None),
    ],
)
def test_it_is_refused_with_its_line(tmp_path: Path, text: str, code: str, said: str, line: int | None) -> None:
    with pytest.raises(BadDefinition) as refused:
        load(tmp_path, text)
    assert (refused.value.code, refused.value.fields.get("line")) == (code, line), str(refused.value)
    assert said in str(refused.value)
    assert str(tmp_path / "counted.sql") in str(refused.value)
    assert refused.value.next_step


def test_a_broken_file_takes_no_other_view_with_it(tmp_path: Path) -> None:
    (tmp_path / "broken.sql").write_text("SELECT 1")
    (tmp_path / "counted.sql").write_text(SHORT + "SELECT 1")
    registry = readable_views(tmp_path, DECLARED)
    assert [each.name for each in registry] == ["counted"]
    assert [Path(path).name for path in registry.unread] == ["broken.sql"]
    assert [*declared_views(tmp_path)] == ["counted"]


def test_a_version_is_declared_once_in_python_or_sql(tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text(
        "from anabranch.views import view\n@view(name='counted', version=1, events='flight.departed', key='a')\n"
        "def counted(departed):\n    return departed\n"
    )
    (tmp_path / "counted.sql").write_text(SHORT + "SELECT 1")
    with pytest.raises(BadDefinition, match=r"it is also declared in .*counted\.py:2"):
        load_views(tmp_path, DECLARED)


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        ("SELECT  a,\n 'x  -- y'  FROM t;", True),
        ("-- a remark\nSELECT a, /* one /* in */ another; */ 'x  -- y' FROM t -- the end", True),
        ("SELECT a, 'x -- y' FROM t", False),
        ("SELECT a, 'x  -- y' AS b FROM t", False),
        ("SELECT a, 'x  -- y' FROM T", False),
        ("SELECT /*+ COALESCE(1) */ a, 'x  -- y' FROM t", False),
    ],
)
def test_the_fingerprint_follows_the_query_without_comments_and_white_space(
    tmp_path: Path, sql: str, same: bool
) -> None:
    first = load(tmp_path, f"{SHORT}SELECT a, 'x  -- y' FROM t")  # noqa: S608
    again = load(tmp_path, f"{SHORT}-- doc: Something.\n\n{sql}")
    assert (again.fingerprint == first.fingerprint) is same


@pytest.mark.parametrize("change", ["version: 2", "key: b", "events: flight.arrived"])
def test_the_fingerprint_follows_the_declaration(tmp_path: Path, change: str) -> None:
    first = load(tmp_path, SHORT + "SELECT 1")
    field = change.partition(":")[0]
    lines = [f"-- {change}" if line.startswith(f"-- {field}:") else line for line in SHORT.splitlines()]
    other = load(tmp_path, "\n".join([*lines, "SELECT 1"]))
    assert other.fingerprint != first.fingerprint
    assert len(first.fingerprint) == 16


def test_texts_are_never_comments_or_ends() -> None:
    sql = r"""SELECT 'a;''b', "it\"s -- ;", r'\', `odd``name;` FROM t"""
    assert problem(sql) is None
    assert [each.text for each in tokens(sql) if each.kind in ("text", "quoted")] == [
        "'a;''b'",
        r'"it\"s -- ;"',
        r"r'\'",
        "`odd``name;`",
    ]
    assert normalised("SELECT 1 -- a ; b\n;;") == "SELECT 1"
    assert problem("((SELECT 1))") is None


def test_the_registered_text_is_the_query_and_can_be_read_again(tmp_path: Path) -> None:
    settings, found = load_settings(home=tmp_path / "home"), load(tmp_path, HEADER + QUERY)
    write_definition(settings, found)
    assert is_registered(settings, found)
    assert definition_lines(found)[-1] == "FROM flight_departed, flight_arrived"
    kept = registered_view(VersionRef(settings, "counted", 2))
    assert kept is not None
    assert (kept.events, kept.key, kept.lookback, kept.tables) == (
        found.events,
        found.key,
        found.lookback,
        found.tables,
    )


def test_calls_in_a_query_have_their_lines_for_a_diagnosis(tmp_path: Path) -> None:
    found = load(tmp_path, f"{SHORT}\nSELECT a,\n  ROW_NUMBER() OVER (ORDER BY max(b)) AS n\nFROM flight_departed")
    assert {*called_names(read(found.function))} >= {("row_number", 7), ("max", 7)}


def test_every_reader_of_the_folder_finds_it(tmp_path: Path) -> None:
    folder = tmp_path / "spark_jobs" / "views"
    folder.mkdir(parents=True)
    (tmp_path / "spark_jobs" / "contracts").mkdir()
    settings = load_settings(project=tmp_path, home=tmp_path / "home")
    watcher = DefinitionWatcher(tmp_path)
    assert not declares_views(settings)
    (folder / "counted.sql").write_text(HEADER + QUERY)
    assert declares_views(settings)
    assert watcher._signature() != watcher._loaded
    (declared,) = known_views(settings)["counted"].declared.values()
    assert (declared.name, declared.version, declared.events) == ("counted", 2, ("flight.departed", "flight.arrived"))
    assert (declared.key, declared.partition_by, declared.lookback) == (("hour", "origin"), "hour", "36 hours")
    assert (declared.doc, declared.file, declared.line) == ("Departures, per hour.", "counted.sql", 1)


def test_a_decorated_function_gives_names_and_no_code(tmp_path: Path) -> None:
    source = "from anabranch.views import view\nSQL = 'SELECT ' + '1'\n@view(name='counted', version=1, {0})\n{1}\n"
    given = "events='flight.departed', key='a', sql=SQL"
    (tmp_path / "counted.py").write_text(source.format(given, "def counted(departed):\n    'Departures.'"))
    (found,) = load_views(tmp_path, DECLARED)
    assert read(found.function).tables == ("departed",)
    (declared,) = declared_views(tmp_path)["counted"]
    assert (declared.doc, declared.events) == ("Departures.", ("flight.departed",))


def test_a_decorated_function_with_code_or_other_parameters_is_refused() -> None:
    given = {"name": "counted", "version": 1, "events": "flight.departed", "key": "a", "sql": "SELECT 1"}

    def with_code(departed):  # type: ignore[no-untyped-def]
        return departed

    def with_any(*departed):  # type: ignore[no-untyped-def]
        """Departures."""

    def with_two(departed, arrived):  # type: ignore[no-untyped-def]
        """Departures."""

    for function, code in ((with_code, "VIEW_SQL"), (with_any, "VIEW_SQL"), (with_two, "VIEW_ARGUMENTS")):
        with pytest.raises(AnabranchError) as refused:
            view(**given)(function)  # type: ignore[arg-type]
        assert refused.value.code == code
