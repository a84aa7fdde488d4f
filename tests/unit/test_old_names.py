"""Files that import our modules by the names they had before ADR 0035 go on working, and are told the new names."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest
from anabranch.contracts import load_declarations
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.old_names import first_name, full_name, renamed
from anabranch.core.project_folder import project_root
from anabranch.views import load_views

pytestmark = pytest.mark.unit
OLD_FILE = """
from anabranch.airflow.declared import declared_views
from anabranch.events import Contract, Topic
from anabranch.settings import load_settings
from anabranch.tables import Note, newest
from anabranch.views.keyed import process
from anabranch.samples.faults import Faults
from anabranch.apps.cli.produce_commands import produce_flights

assert Faults.__module__ == "anabranch_samples.faults"
assert produce_flights.__module__ == "anabranch_samples.producing"
assert Note.__name__ == "CommitMetadata"
assert callable(newest)
"""
VIEW = """
from {module} import process
from anabranch.views import view

@view(name="turns", version=1, events=["flight.departed"], key=["tail", "time"], partition_by="time")
def turns(departed):
    return process(departed, "tail", object, "tail string, time timestamp")
"""


@pytest.fixture(scope="module")
def declared() -> Declarations:
    contracts = project_root() / "spark_jobs" / "contracts"
    more = load_declarations(contracts / "gallery")
    return Declarations({**load_declarations(contracts).topics, **more.topics})


@pytest.mark.parametrize(("old", "new"), sorted(renamed().modules.items()))
def test_each_old_module_gives_the_new_one(old: str, new: str) -> None:
    if new.startswith(("apps.airflow", "apps.web")):
        pytest.importorskip("airflow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.modules.pop(f"anabranch.{old}", None)
        module = import_module(f"anabranch.{old}")
        target = import_module(full_name(new))
        for name, now in ((n, now) for n, now in renamed().names.items() if n.split(":")[0] == old):
            assert getattr(module, name.split(":")[1]) is getattr(target, now)


def test_an_old_module_does_not_hide_what_its_package_offers_under_the_same_name() -> None:
    """In a process of its own, which has fetched neither of them yet."""
    program = (
        "import anabranch\n"
        "from anabranch.operate.trial.landed_events import landed_events as old\n"
        "from anabranch.operate.trial import landed_events\n"
        "assert anabranch.landed_events is landed_events is old, landed_events\n"
        "import anabranch.operate.trial.chosen_days\n"
        "assert anabranch.operate.trial.chosen_days.read_days, 'what it does not offer is there as before'"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)


def test_every_name_that_a_dag_a_job_a_view_or_our_docs_imported_is_still_there() -> None:
    """``imports_of_files.json`` was taken from the files of commit deb6be9."""
    pytest.importorskip("airflow")
    known = json.loads((Path(__file__).parent / "imports_of_files.json").read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        missing = [f"{module}.{name}" for module, names in known.items() for name in names if not _has(module, name)]
    assert not missing


def _has(module: str, name: str) -> bool:
    try:
        return hasattr(import_module(module), name) or bool(import_module(f"{module}.{name}"))
    except ModuleNotFoundError:
        return False


def test_a_file_with_old_names_works_and_is_told_the_new_ones_at_its_own_lines(tmp_path: Path) -> None:
    (tmp_path / "of_a_user.py").write_text(OLD_FILE)
    ended = subprocess.run(
        [sys.executable, "-c", "import of_a_user"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    told = [line for line in ended.stderr.splitlines() if "FutureWarning" in line]
    lines = [int(line.split(":")[1]) for line in told if "of_a_user.py" in line]
    assert lines == [2, 2, 3, 4, 5, 6, 7, 7, 8]
    assert "anabranch.views.keyed was renamed to anabranch.views.processor" in ended.stderr


def test_an_unknown_module_is_still_unknown() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"anabranch\.nowhere"):
        import_module("anabranch.nowhere")


def test_a_folder_that_a_checkout_left_behind_hides_no_old_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git leaves folders that hold byte code, and Python would import such a folder as an empty package."""
    import anabranch

    (tmp_path / "tables" / "__pycache__").mkdir(parents=True)
    monkeypatch.setattr(anabranch, "__path__", [*anabranch.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "anabranch.tables", raising=False)
    with pytest.warns(FutureWarning):
        assert import_module("anabranch.tables").Note.__name__ == "CommitMetadata"


def test_state_that_was_pickled_under_an_old_name_opens() -> None:
    sys.modules.pop("anabranch.views.keyed", None)
    with pytest.warns(FutureWarning):
        found = pickle.loads(b"canabranch.views.keyed\nTimers\n.")  # noqa: S301 - written here
    assert found.__module__ == "anabranch.views.processor"


def test_definitions_keep_the_fingerprints_that_tables_carry(declared: Declarations) -> None:
    """``fingerprints.json`` was written by commit deb6be9, before anything was renamed."""
    known = json.loads((Path(__file__).parent / "fingerprints.json").read_text())
    jobs = project_root() / "spark_jobs"
    views = [v for folder in ("views", "views/gallery", "next") for v in load_views(jobs / folder, declared)]
    assert {f"{view.name} v{view.version}": view.fingerprint for view in views} == known


@pytest.mark.parametrize("module", ["anabranch.views.keyed", "anabranch.views.processor"])
def test_a_view_that_takes_the_new_name_is_the_same_view(module: str, declared: Declarations, tmp_path: Path) -> None:
    (tmp_path / f"{module.replace('.', '_')}.py").write_text(VIEW.format(module=module))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        (view,) = load_views(tmp_path, declared)
    assert view.fingerprint == "772c06c7f95af3b0", "as commit deb6be9 has it"


def test_only_modules_of_ours_have_a_first_name() -> None:
    assert first_name("anabranch.views.processor") == "anabranch.views.keyed"
    assert first_name("anabranch.views.joins") == "anabranch.views.joins"
    assert first_name("views.processor") == "views.processor"
    assert first_name("anabranch_samples.demo.run") == "anabranch.cli.demo_run"
    assert first_name("anabranch_other.demo") == "anabranch_other.demo", "of somebody else"


def test_a_module_that_was_merged_into_another_keeps_its_first_name_and_does_not_take_the_others() -> None:
    """Else the fingerprint of a view that imports either of them would change."""
    assert first_name("anabranch.views.definition") == first_name("anabranch.views.model.definition")
    assert first_name("anabranch.views.model.definition") == "anabranch.views.definition"
    assert first_name("anabranch.views.model.definition_errors") == "anabranch.views.refusals"
    assert first_name("anabranch.views.refusals") == "anabranch.views.refusals"


def test_a_view_that_spells_a_module_of_ours_out_is_the_same_view(declared: Declarations, tmp_path: Path) -> None:
    found = set()
    for name in ("keyed", "processor"):
        folder = tmp_path / name
        folder.mkdir()
        text = VIEW.format(module=f"anabranch.views.{name}").replace(
            f"from anabranch.views.{name} import process", f"import anabranch.views.{name}"
        )
        (folder / f"{name}.py").write_text(text.replace("return process(", f"return anabranch.views.{name}.process("))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            (view,) = load_views(folder, declared)
        found.add(view.fingerprint)
    assert len(found) == 1
