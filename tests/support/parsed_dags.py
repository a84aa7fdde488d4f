"""What the DAGs of a file are, and what parsing it costs: by a process of its own, as Airflow's processor does it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from anabranch.core.settings import project_root

# Parses the file as Airflow's processor does: Airflow itself is loaded already in that process. So are croniter and
# urllib3: at import, one asks `file` for the word size, the other tries whether a socket can have an IPv6 address.
PARSE = """
import json, runpy, sys, time
import airflow.sdk, croniter, urllib3
before = set(sys.modules)
opened = []
def watch(event, args):
    if event.startswith(("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.system")):
        opened.append(event)
sys.addaudithook(watch)
wall, cpu = time.perf_counter(), time.process_time()
found = runpy.run_path(sys.argv[1])
cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
dags = {name: dag for name, dag in found.items() if type(dag).__name__ == "DAG"}
print(json.dumps({
    "cpu": cpu, "wall": wall, "opened": opened, "loaded": sorted({m.split(".")[0] for m in set(sys.modules) - before}),
    "dags": {name: {
        "id": dag.dag_id, "doc": dag.doc_md, "tags": sorted(dag.tags), "catchup": dag.catchup,
        "edges": sorted((task, down) for task in dag.task_ids for down in dag.get_task(task).downstream_task_ids),
        "params": list(dag.params),
        "version": dag.params.dump().get("version"),
        "views": dag.params.get_param("view").schema["enum"] if "view" in dag.params else None,
        "retries": {task: dag.get_task(task).retries for task in dag.task_ids},
    } for name, dag in dags.items()},
}))
"""
HEAVY = {"pyspark", "great_expectations", "deltalake", "pyarrow", "pandas", "polars", "duckdb", "confluent_kafka"}


def parse(tmp_path: Path, project: Path, file: str) -> dict[str, Any]:
    env = {
        "PATH": os.environ["PATH"],
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "ANABRANCH_HOME": str(tmp_path / "home"),
        "ANABRANCH_PROJECT": str(project),
        "ANABRANCH_JARS": str(tmp_path / "no-jars"),
    }
    command = [sys.executable, "-c", PARSE, str(project_root() / "dags" / f"{file}.py")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
