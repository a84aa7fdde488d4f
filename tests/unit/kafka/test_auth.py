"""What Kafka's clients are told of a login: Java's never the password itself, only where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from anabranch.core.errors import AnabranchError, BadInput
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.kafka.auth import java_client, password
from anabranch.ingest.kafka.client import client_config
from anabranch.operate.runtime._preflight import check_certificate
from anabranch.operate.runtime.environment import environment
from anabranch.operate.runtime.kafka_server import properties
from support.tls_authority import authority

pytestmark = pytest.mark.unit
SECRET = "planted-0123456789abcdef"  # noqa: S105


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "secrets" / "kafka"
    file.parent.mkdir()
    file.write_text(SECRET)
    return file


def remote(**more: Any) -> Settings:
    return load_settings(bootstrap_servers="broker.test:9093", **more)


def test_no_login_no_settings_of_one() -> None:
    config = client_config(remote(), {}, {})
    assert not [name for name in config if name.startswith(("sasl", "ssl", "security"))]
    assert java_client(remote()) == {}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-256", "scram.ScramLoginModule"),
     ("SCRAM-SHA-512", "scram.ScramLoginModule")],
)  # fmt: skip
@pytest.mark.parametrize("by", ["file", "variable"])
def test_both_clients_log_in_over_tls(file: Path, mechanism: str, module: str, by: str) -> None:
    given: dict[str, Any] = {"kafka_password_file": file} if by == "file" else {"kafka_password": SECRET}
    settings = remote(kafka_user="anna", kafka_mechanism=mechanism, kafka_ca=file, **given)
    config, java = client_config(settings, {}, {}), java_client(settings)
    assert (config["sasl.username"], config["sasl.password"], config["sasl.mechanism"]) == ("anna", SECRET, mechanism)
    assert config["security.protocol"] == java["security.protocol"] == "SASL_SSL"
    assert config["ssl.ca.location"] == java["ssl.truststore.location"] == str(file)
    assert java["sasl.mechanism"] == mechanism
    assert module in java["sasl.jaas.config"]
    place = f"${{directory:{file.parent}:kafka}}" if by == "file" else "${env:ANABRANCH_KAFKA_PASSWORD}"
    assert f'password="{place}"' in java["sasl.jaas.config"]
    assert SECRET not in str(java)


def test_a_clients_key_stays_in_its_file(file: Path) -> None:
    options = {"security.protocol": "SSL", "ssl.certificate.location": str(file), "ssl.key.location": str(file)}
    java = java_client(remote(kafka_options=options))
    assert java["ssl.keystore.key"] == f"${{directory:{file.parent}:kafka}}"
    assert SECRET not in str(java)


@pytest.mark.parametrize("content", ["", "two\nlines", "with a break behind it\n", 'quo"te', "back\\slash", "\x00"])
def test_a_file_that_java_could_not_use_is_refused_before_anything_is_sent(file: Path, content: str) -> None:
    file.write_text(content)
    settings = remote(kafka_user="anna", kafka_password_file=file)
    for ask in (password, java_client, lambda s: client_config(s, {}, {})):
        with pytest.raises(BadInput) as refused:
            ask(settings)
        assert (refused.value.code, refused.value.fields["file"]) == ("KAFKA_PASSWORD", str(file))
        assert not content or content not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        password(remote(kafka_user="anna", kafka_password_file=tmp_path / "none"))
    assert "ANABRANCH_KAFKA_PASSWORD_FILE" in refused.value.next_step


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("another host without a login", {"kafka_host": "0.0.0.0"}, "kafka_host"),  # noqa: S104
    ("another name without a login", {"kafka_host": "broker.test"}, "kafka_host"),
    ("a login without a certificate", {"kafka_user": "anna", "kafka_password": SECRET}, "kafka_certificate"),
    ("a certificate without a login", {"kafka_certificate": "/x", "kafka_ca": "/x"}, "kafka_certificate"),
    ("a user without a password", {"bootstrap_servers": "b:1", "kafka_user": "anna"}, "kafka_user"),
    ("a password without a user", {"bootstrap_servers": "b:1", "kafka_password": SECRET}, "kafka_user"),
    ("a password twice",
     {"bootstrap_servers": "b:1", "kafka_user": "a", "kafka_password": SECRET, "kafka_password_file": "/x"},
     "kafka_password_file"),
    ("a password with a quote", {"bootstrap_servers": "b:1", "kafka_user": "a", "kafka_password": f'"{SECRET}'},
     "kafka_password"),
    ("a password among the options", {"kafka_options": {"sasl.password": SECRET}}, "kafka_options"),
    ("a key among the options", {"kafka_options": {"ssl.key.pem": SECRET}}, "kafka_options"),
    ("a key's password among the options", {"kafka_options": {"ssl.key.password": SECRET}}, "kafka_options"),
    ("a login without TLS",
     {"bootstrap_servers": "b:1", "kafka_user": "a", "kafka_password": SECRET,
      "kafka_options": {"security.protocol": "SASL_PLAINTEXT"}}, "kafka_options"),
    ("a secret for Spark", {"spark_conf": {"spark.authenticate.secret": SECRET}}, "spark_conf"),
    ("a key of S3 for Spark", {"spark_conf": {"spark.hadoop.fs.s3a.access.key": SECRET}}, "spark_conf"),
    ("Spark's driver opened", {"spark_conf": {"spark.driver.bindAddress": "0.0.0.0"}}, "spark_conf"),  # noqa: S104
    ("Spark's driver named", {"spark_conf": {"spark.driver.host": "driver.test"}}, "spark_conf"),
    ("a user that is a template", {"bootstrap_servers": "b:1", "kafka_user": "${env:HOME}", "kafka_password": SECRET},
     "kafka_user"),
    ("a user with a quote", {"bootstrap_servers": "b:1", "kafka_user": 'a"; x', "kafka_password": SECRET},
     "kafka_user"),
    ("no mechanism", {"kafka_mechanism": SECRET}, "kafka_mechanism"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "field"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_would_open_a_server_or_show_a_secret_is_refused_by_its_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        load_settings(**given)
    assert (refused.value.code, refused.value.fields["settings"]) == ("SETTINGS_REFUSED", [field])
    assert f"ANABRANCH_{field.upper()}" in str(refused.value)
    assert SECRET not in str(refused.value)
    assert refused.value.next_step


def test_a_setting_that_can_not_be_read_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_KAFKA_OPTIONS", f'{{"sasl.password": "{SECRET}"')
    with pytest.raises(BadInput) as refused:
        load_settings()
    assert refused.value.code == "SETTINGS_REFUSED"
    assert "kafka_options" in str(refused.value)
    assert SECRET not in str(refused.value)


def test_settings_do_not_show_the_password_and_hand_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = remote(kafka_user="anna", kafka_password=SECRET)
    assert SECRET not in repr(settings) + str(settings) + settings.model_dump_json()
    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)
    assert Settings() == settings
    assert Settings().kafka_password.get_secret_value() == SECRET


@pytest.mark.parametrize("host", ["10.1.2.3", "broker.test"])
def test_opened_to_a_network_the_broker_takes_a_login_only(file: Path, host: str) -> None:
    login = {"kafka_user": "anna", "kafka_password_file": file, "kafka_ca": file, "kafka_certificate": file}
    told = properties(load_settings(kafka_host=host, kafka_port=20_000, **login))
    assert told["listeners"].startswith(f"SASL_SSL://{host}:20000,CONTROLLER://127.0.0.1:")
    assert told["advertised.listeners"] == f"SASL_SSL://{host}:20000"
    assert told["listener.security.protocol.map"] == "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"
    assert SECRET not in str(told)


def test_the_brokers_certificate_is_tried_before_it_starts(tmp_path: Path, file: Path) -> None:
    ours, another = authority(tmp_path, "ours"), authority(tmp_path, "another")
    good = {"kafka_user": "anna", "kafka_password_file": file, "kafka_ca": ours.file}
    good["kafka_certificate"] = ours.sign(tmp_path / "good", "127.0.0.1", "broker.test")
    check_certificate(load_settings(**good))
    check_certificate(load_settings(**good, kafka_host="broker.test"))
    wrong: list[dict[str, object]] = [
        {"kafka_host": "elsewhere.test"},
        {"kafka_certificate": another.sign(tmp_path / "another's", "127.0.0.1")},
        {"kafka_certificate": tmp_path / "none"},
        {"kafka_certificate": ours.file},
        {"kafka_ca": file},
    ]
    for change in wrong:
        with pytest.raises(AnabranchError) as refused:
            check_certificate(load_settings(**{**good, **change}))
        assert refused.value.code == "KAFKA_CERTIFICATE", change
