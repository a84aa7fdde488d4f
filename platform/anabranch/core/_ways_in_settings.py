"""Settings of the ways into the log other than Kafka's own protocol: HTTP, queues of RabbitMQ, StatsD."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Self
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr, model_validator

from anabranch.core._setting_types import File, Host, Port, is_loopback, refused


class WaysIn(BaseModel):
    """A part of ``Settings``."""

    http_host: Host = "127.0.0.1"
    """The address that the HTTP server for events listens on; beyond loopback only with one of the next two."""
    http_port: Port = 18090
    http_certificate: File = None
    """Key and certificate of the HTTP server in one file (PEM): it then speaks TLS only."""
    http_behind_proxy: bool = False
    """Something in front of the HTTP server ends TLS, or publishes it on loopback only (a container): it may listen
    beyond loopback without a certificate."""
    http_checked_topics: tuple[str, ...] = ()
    """Topics whose events the HTTP server holds to their contracts before it sends them, as a JSON list. Those of other
    topics are quarantined by landing if they are wrong."""

    amqp_url: str = Field(default="", pattern=r"^(amqps?://([^\s/@]*@)?[A-Za-z0-9.-]{1,253}(:\d{1,5})?(/[\w.%~-]*)?)?$")
    """RabbitMQ, for declared queues: ``amqp://USER@HOST:PORT/VHOST``, or ``amqps://`` for TLS. Without the password,
    which one of the next two gives."""
    amqp_password: SecretStr = SecretStr("")
    amqp_password_file: File = None
    """A file that holds only the password; read again for each connection."""
    amqp_ca: File = None
    """CA certificates (PEM) for RabbitMQ's certificate; empty: those of the system."""

    statsd_topic: str = ""
    """The topic that metrics become events of; empty: no StatsD."""
    statsd_host: Host = "127.0.0.1"
    """The address that StatsD listens on; beyond loopback only with ``statsd_networks``."""
    statsd_port: Port = 18125
    statsd_networks: tuple[IPv4Network, ...] = ()
    """Networks whose packets are taken, as a JSON list; empty: this machine's. StatsD has no login."""

    @model_validator(mode="after")
    def _check_ways_in(self) -> Self:
        if not is_loopback(self.http_host) and not (self.http_certificate or self.http_behind_proxy):
            what = f"{self.http_host} is not loopback: without TLS anyone on the way can read the tokens"
            advice = "set ANABRANCH_HTTP_CERTIFICATE, or ANABRANCH_HTTP_BEHIND_PROXY where something in front ends TLS"
            raise refused("http_host", what, advice)
        if not is_loopback(self.statsd_host) and not self.statsd_networks:
            what = f"{self.statsd_host} is not loopback: anyone who reaches it can send metrics"
            raise refused("statsd_host", what, 'set ANABRANCH_STATSD_NETWORKS, as a JSON list: ["10.0.0.0/8"]')
        self._check_amqp()
        return self

    def _check_amqp(self) -> None:
        url = urlsplit(self.amqp_url)
        given = bool(self.amqp_password.get_secret_value()) + bool(self.amqp_password_file)
        if url.password is not None:
            advice = "set ANABRANCH_AMQP_PASSWORD_FILE (or ..._PASSWORD), and leave it out of the address"
            raise refused("amqp_url", "it holds a password, and addresses are shown", advice)
        if given > 1:
            raise refused("amqp_password_file", "the password is given twice", "unset ANABRANCH_AMQP_PASSWORD")
        if self.amqp_url and given != bool(url.username):
            advice = "write amqp://USER@HOST/VHOST and set ANABRANCH_AMQP_PASSWORD_FILE (or ..._PASSWORD), or neither"
            raise refused("amqp_url", "a user needs a password, and a password a user", advice)
        if given and url.scheme == "amqp" and not is_loopback(url.hostname or ""):
            what = f"{url.hostname} is not loopback: without TLS anyone on the way can read the password"
            raise refused("amqp_url", what, "use amqps://")
