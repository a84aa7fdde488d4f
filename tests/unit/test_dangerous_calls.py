"""Nothing of ours runs a text as code or through a shell, or unpacks objects, but where it is explained."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from anabranch.core.project_folder import project_root

pytestmark = pytest.mark.unit

ROOT = project_root()
FOLDERS = ("platform", "dags", "spark_jobs", "infra")
BUILTINS = {"eval", "exec", "compile", "__import__"}
UNPACKING = {"load", "loads", "Unpickler", "Pickler", "open", "read_pickle", "unsafe_load", "full_load", "load_all"}
UNPACKERS = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "jsonpickle", "marshal", "shelve", "yaml"}
CALLED = {
    *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "pty.spawn", "code.interact"),
    *("pandas.read_pickle", "pandas.eval", "torch.load", "runpy.run_path", "runpy.run_module"),
    *("importlib.import_module", "importlib.util.spec_from_file_location", "importlib.machinery.SourceFileLoader"),
    *("asyncio.create_subprocess_shell", "markupsafe.Markup", "jinja2.Template"),
}
ALLOWED = {
    (
        "platform/anabranch/views/_processor_stream.py",
        "pickle.loads",
    ): "a processor's state from Spark's state store, where "
    "this very module has put it; whoever may write to checkpoints may change the view's code as well",
    (
        "platform/anabranch/contracts/model/declarations.py",
        "importlib.util.spec_from_file_location",
    ): "contracts and views are "
    "code of the owner, in the project's own two folders; no name from outside chooses the file",
    ("platform/anabranch/apps/cli/main.py", "importlib.import_module"): "the commands, by a tuple of constants",
    ("platform/anabranch/__init__.py", "importlib.import_module"): "our own modules, by a table of constants",
    (
        "platform/anabranch/apps/airflow/notifiers.py",
        "importlib.import_module",
    ): "notifiers of Airflow, by a setting of the owner, who may change the project's code as well",
    ("platform/anabranch/core/old_names.py", "importlib.import_module"): "our own modules, by a table of constants",
    ("platform/anabranch/_lazy_exports.py", "importlib.import_module"): "our own modules, by a table of constants",
}
"""Spark itself carries functions to its Python workers by cloudpickle: from our own driver to its own children, over
loopback or an authenticated connection. Nothing of it comes from outside, and no call of ours is in it."""


def dangers(source: str) -> Iterator[tuple[int, str]]:
    """Line and full name of each danger in a source, whatever name it was imported under."""
    tree = ast.parse(source)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots = {each.name.partition(".")[0] for each in node.names if not each.asname}
            names |= {root: root for root in roots} | {each.asname: each.name for each in node.names if each.asname}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {(each.asname or each.name): f"{node.module}.{each.name}" for each in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            full = _full(node, names)
            if full and _is_danger(full):
                yield node.lineno, full
        elif isinstance(node, ast.Call):
            for keyword in node.keywords:
                value = keyword.value.value if isinstance(keyword.value, ast.Constant) else True
                if (keyword.arg in ("shell", "allow_pickle") and value) or (keyword.arg == "autoescape" and not value):
                    yield node.lineno, f"{keyword.arg}={value!r}"


def _full(node: ast.expr, names: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        before = _full(node.value, names)
        return f"{before}.{node.attr}" if before else ""
    if not isinstance(node, ast.Name):
        return ""
    return names.get(node.id, f"builtins.{node.id}" if node.id in BUILTINS else "")


def _is_danger(full: str) -> bool:
    module, _, name = full.rpartition(".")
    unpacks = module.rpartition(".")[2] in UNPACKERS and name in UNPACKING
    return unpacks or full in CALLED or (module == "builtins" and name in BUILTINS)


def found() -> dict[tuple[str, str], int]:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 200
    return {
        (str(file.relative_to(ROOT)), name): line for file in files for line, name in dangers(file.read_text())
    }  # fmt: skip


def test_no_source_has_one_that_is_not_explained() -> None:
    here = found()
    assert {f"{file}:{line} {name}" for (file, name), line in here.items() if (file, name) not in ALLOWED} == set()
    assert set(ALLOWED) <= set(here), "an explanation of what isn't there any more"


def test_no_template_shows_a_text_as_it_is() -> None:
    templates = [*(ROOT / "platform").rglob("*.html")]
    assert templates
    texts = {file: file.read_text().replace(" ", "") for file in templates}
    assert [file for file, text in texts.items() if "|safe" in text or "autoescape" in text] == []


CASES = [
    "eval('1')", "exec(text)", "run = eval\nrun('1')", "import builtins\nbuiltins.eval('1')", "__import__(name)",
    "import pickle\npickle.loads(b)", "from pickle import loads as read\nread(b)", "import pickle as p\np.load(f)",
    "from pyspark import cloudpickle\ncloudpickle.loads(b)", "import yaml\nyaml.load(f, Loader=yaml.Loader)",
    "import yaml\nyaml.unsafe_load(f)", "import os\nos.system('ls')", "from os import popen\npopen('ls')",
    "import subprocess\nsubprocess.run('ls', shell=True)", "import subprocess as s\ns.run('ls', shell=wanted)",
    "import subprocess\nsubprocess.getoutput('ls')", "import shelve\nshelve.open(f)",
    "import marshal\nmarshal.loads(b)", "import numpy as np\nnp.load(f, allow_pickle=True)",
    "import pandas as pd\npd.read_pickle(f)", "import runpy\nrunpy.run_path(f)", "import pty\npty.spawn(c)",
    "import importlib\nimportlib.import_module(name)", "import jinja2\njinja2.Environment(autoescape=False)",
    "from markupsafe import Markup\nMarkup(text)",
]  # fmt: skip


@pytest.mark.parametrize("source", CASES)
def test_each_of_them_would_be_found(source: str) -> None:
    assert list(dangers(source))


@pytest.mark.parametrize(
    "source",
    ["import ast\nast.literal_eval(t)", "frame.eval('x')", "import re\nre.compile('x')", "import json\njson.loads(t)",
     "import yaml\nyaml.safe_load(f)", "import subprocess\nsubprocess.run(['ls'], shell=False)", "view.compile()"],
)  # fmt: skip
def test_what_is_harmless_is_not_found(source: str) -> None:
    assert list(dangers(source)) == []
