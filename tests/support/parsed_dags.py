"""What the DAGs of a file are, and what parsing it costs: by a process of its own, as Airflow's processor does it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from anabranch.core.project_folder import project_root

# As Airflow's processor: Airflow itself is loaded once, and each file is parsed in a fork of that process. So are
# croniter and urllib3: at import, one asks `file` for the word size, the other tries whether a socket can have an IPv6
# address.
PARSER = """
import json, os, runpy, sys, time, traceback
import airflow.sdk, croniter, urllib3
before = set(sys.modules)
opened = []
def watch(event, args):
    if event.startswith(("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.system")):
        opened.append(event)
def parse(file):
    sys.addaudithook(watch)
    wall, cpu = time.perf_counter(), time.process_time()
    found = runpy.run_path(file)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    dags = {name: dag for name, dag in found.items() if type(dag).__name__ == "DAG"}
    return {
        "cpu": cpu, "wall": wall, "opened": opened,
        "loaded": sorted({m.split(".")[0] for m in set(sys.modules) - before}),
        "dags": {name: {
            "id": dag.dag_id, "doc": dag.doc_md, "tags": sorted(dag.tags), "catchup": dag.catchup,
            "edges": sorted((task, down) for task in dag.task_ids for down in dag.get_task(task).downstream_task_ids),
            "params": list(dag.params),
            "version": dag.params.dump().get("version"),
            "views": dag.params.get_param("view").schema["enum"] if "view" in dag.params else None,
            "retries": {task: dag.get_task(task).retries for task in dag.task_ids},
        } for name, dag in dags.items()},
    }
for line in sys.stdin:
    asked = json.loads(line)
    if os.fork() == 0:
        os.environ.update(asked["env"])
        try:
            told = json.dumps(parse(asked["file"]))
        except BaseException:
            told = json.dumps({"failed": traceback.format_exc()[-2000:]})
        print(told, flush=True)
        os._exit(0)
    os.wait()
"""
HEAVY = {"pyspark", "great_expectations", "deltalake", "pyarrow", "pandas", "polars", "duckdb", "confluent_kafka"}


class Parse(Protocol):
    """``folder``: where the file is, if it isn't one of ours."""

    def __call__(self, home: Path, project: Path, file: str, folder: Path | None = None) -> dict[str, Any]: ...


@contextmanager
def parser(airflow_home: Path) -> Iterator[Parse]:
    env = {"PATH": os.environ["PATH"], "AIRFLOW_HOME": str(airflow_home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    env |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    command = [sys.executable, "-c", PARSER]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asks, answers = process.stdin, process.stdout

        def parse(home: Path, project: Path, file: str, folder: Path | None = None) -> dict[str, Any]:
            own = {
                "ANABRANCH_HOME": str(home / "home"),
                "ANABRANCH_PROJECT": str(project),
                "ANABRANCH_JARS": str(home / "no-jars"),
            }
            path = (folder or project_root() / "dags") / f"{file}.py"
            asks.write(json.dumps({"file": str(path), "env": own}) + "\n")
            asks.flush()
            lines = iter(answers.readline, "")
            answer: dict[str, Any] = json.loads(next(line for line in lines if line.startswith("{")))
            assert "failed" not in answer, answer["failed"]
            return answer

        yield parse
