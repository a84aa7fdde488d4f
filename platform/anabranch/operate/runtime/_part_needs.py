"""Declares which variables each part gets: nothing else of the shell that started the platform reaches it.

Every part but Postgres gets ``PLAIN``, and all settings but the logins that it doesn't use. The environment of a part
that isn't declared in ``NEEDS`` can't be made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from pydantic import SecretStr

PLAIN: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "NO_COLOR", "COLUMNS"),
    *("LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR", "TMPDIR", "TMP", "TEMP", "XDG_*"),
    *("PYTHON*", "PYSPARK_*", "VIRTUAL_ENV", "COVERAGE_*", "COV_CORE_*"),
    *("JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_*"),
    *("HADOOP_HOME", "HADOOP_CONF_DIR", "HADOOP_USER_NAME", "YARN_CONF_DIR", "KUBECONFIG"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "FAKETIME*", "DONT_FAKE_MONOTONIC", "MALLOC_*", "GLIBC_TUNABLES"),
    "OBJC_DISABLE_INITIALIZE_FORK_SAFETY",  # without it macOS ends the forks of Airflow and Python
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS", "RUST_LOG", "RUST_BACKTRACE"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "OPENSSL_CONF"),
    *("KRB5_CONFIG", "KRB5CCNAME", "KRB5_KTNAME", "KRB5_CLIENT_KTNAME"),
)
"""Variables of the shell that any process may need, and that hold no secret. ``*`` at the end: all that begin so."""

PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
"""For parts that ask servers outside by HTTP; a proxy's address may hold its password."""
OF_AIRFLOW: Final = (
    *("AIRFLOW_*", "AWS_*", "AZURE_*", "GOOGLE_*", "CLOUDSDK_*", "OTEL_*", "VAULT_*"),
    *("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"),
    *PROXIES,
)
"""What DAGs, connections (``AIRFLOW_CONN_*``), hooks, secret backends and Airflow's own logs and metrics are configured
by, and where its Kubernetes hooks find the cluster that they run in."""

LOGINS: Final[Mapping[str, Mapping[str, Any]]] = {
    "kafka": {
        "kafka_user": "",
        "kafka_password": SecretStr(""),
        "kafka_password_file": None,
        # Settings hold the embedded broker to both a login and TLS, or neither.
        "kafka_ca": None,
        "kafka_certificate": None,
        "kafka_host": "127.0.0.1",
    },
    "registry": {
        "schema_registry_user": "",
        "schema_registry_password": SecretStr(""),
        "schema_registry_password_file": None,
    },
    "amqp": {"amqp_url": "", "amqp_password": SecretStr(""), "amqp_password_file": None},
}
"""The settings of each login, as they are in a part that doesn't use it."""

FERNET: Final = "AIRFLOW__CORE__FERNET_KEY"
API_SECRET: Final = "AIRFLOW__API__SECRET_KEY"  # noqa: S105 - the names of variables
JWT_SECRET: Final = "AIRFLOW__API_AUTH__JWT_SECRET"  # noqa: S105
DATABASE: Final = ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC")
AIRFLOW_SECRETS: Final = (FERNET, API_SECRET, JWT_SECRET, *DATABASE)
"""Airflow's settings that hold secrets that we have made."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a part gets beside ``PLAIN`` and the settings that are no login."""

    logins: tuple[str, ...] = ()
    """Those of ``LOGINS``."""
    inherited: tuple[str, ...] = ()
    """More variables of the shell."""
    project_code: bool = True
    """Whether it loads the project's own code, which may read what ``pass_env`` names."""
    airflow_secrets: tuple[str, ...] = ()
    """Those of ``AIRFLOW_SECRETS`` that it may read; the variable holds the command that reads the file."""


DIRTY_DAYS: Final = "dirty-days"
"""The child process of the API server that loads the project's views."""
NEEDS: Final[Mapping[str, Needs]] = {
    "kafka": Needs(logins=("kafka",), project_code=False),
    # It writes and checks the tables of Airflow's database; some of its steps encrypt what older versions left plain.
    "airflow-migrate": Needs(project_code=False, airflow_secrets=(FERNET, *DATABASE)),
    # Signs and checks logins and the tokens of tasks, and gives connections to tasks.
    "airflow-api-server": Needs(inherited=OF_AIRFLOW, airflow_secrets=AIRFLOW_SECRETS),
    # Makes the tokens of tasks. Its workers are forks of it, and so are tasks: ours read the log in a replay.
    "airflow-scheduler": Needs(
        logins=("kafka",), inherited=OF_AIRFLOW, airflow_secrets=(FERNET, JWT_SECRET, *DATABASE)
    ),
    # Both read connections from the database themselves.
    "airflow-dag-processor": Needs(inherited=OF_AIRFLOW, airflow_secrets=(FERNET, *DATABASE)),
    "airflow-triggerer": Needs(inherited=OF_AIRFLOW, airflow_secrets=(FERNET, *DATABASE)),
    "landing": Needs(logins=("kafka", "registry"), inherited=PROXIES),
    "speed": Needs(),
    "http": Needs(logins=("kafka",)),
    "queues": Needs(logins=("kafka", "amqp")),
    "statsd": Needs(logins=("kafka",)),
    DIRTY_DAYS: Needs(),
}
"""By the part's name. Postgres isn't one: it gets nothing of the shell, but an environment of its own
(``_postgres_server``)."""


def without_other_logins(part: str) -> dict[str, Any]:
    """The settings of the logins that this part doesn't use."""
    used = NEEDS[part].logins
    return {name: value for login, blank in LOGINS.items() if login not in used for name, value in blank.items()}


def from_shell(part: str, shell: Mapping[str, str], pass_env: Iterable[str]) -> dict[str, str]:
    """Those variables of the shell that this part gets. Never one that gives Airflow another secret than ours, which
    Airflow would prefer to our file."""
    needs = NEEDS[part]
    names = (*PLAIN, *needs.inherited, *(pass_env if needs.project_code else ()))
    ours = {secret + how for secret in AIRFLOW_SECRETS for how in ("", "_CMD", "_SECRET")}
    return {
        name: value
        for name, value in shell.items()
        if name not in ours
        and not name.startswith("ANABRANCH_")
        and any(fnmatchcase(name, pattern) for pattern in names)
    }
