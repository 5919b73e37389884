"""Addresses, settings of clients, and lists in brackets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kafkalite.client.access import PLAINTEXT, Login
from kafkalite.docker.tools.arguments import (
    ToolError,
    ToolParser,
    access_from,
    addresses_of,
    bracketed_items,
    key_values,
    unbracketed,
)
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from pathlib import Path

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def test_addresses_are_those_of_a_client() -> None:
    assert addresses_of(":9092,b:1") == [Address("localhost", 9092), Address("b", 1)]


@pytest.mark.parametrize("text", [None, "", "kafka"])
def test_invalid_address_is_an_error(text: str | None) -> None:
    with pytest.raises(ToolError, match="--bootstrap-server"):
        addresses_of(text)


def test_items_in_brackets_are_not_divided() -> None:
    assert bracketed_items("a=1, b=[2,3],c=[d=[4,5],e=6]") == ["a=1", "b=[2,3]", "c=[d=[4,5],e=6]"]
    assert unbracketed("[2,3]") == "2,3"
    assert unbracketed("2") == "2"
    assert dict(key_values(["a=b=c"], "--config")) == {"a": "b=c"}


def properties(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "client.properties"
    path.write_text("\n".join(lines))
    return str(path)


def test_client_without_file_is_not_secured() -> None:
    assert access_from(None, {}) is PLAINTEXT


def test_file_has_a_login(tmp_path: Path) -> None:
    path = properties(
        tmp_path,
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        f"sasl.jaas.config={_MODULE} username=alice password=secret;",
    )
    access = access_from(path, {})
    assert access.login == Login("PLAIN", "alice", "secret")
    assert access.tls is None


def test_unusable_file_is_named(tmp_path: Path) -> None:
    path = properties(tmp_path, "security.protocol=QUIC")
    with pytest.raises(ToolError, match=f"{path}: security.protocol is one of"):
        access_from(path, {})


def test_missing_file_is_an_error() -> None:
    with pytest.raises(ToolError, match="cannot read /none"):
        access_from("/none", {})


def test_zookeeper_is_answered_with_the_option_of_brokers() -> None:
    for arguments in (["--zookeeper", "z:2181"], ["--zookeeper=z:2181"]):
        with pytest.raises(ToolError, match="there is no ZooKeeper; write --bootstrap-server"):
            ToolParser("kafka-topics", "x").parse(arguments)


def test_properties_of_a_former_authorizer_are_answered_with_the_option_of_brokers() -> None:
    words = ["--authorizer-properties", "zookeeper.connect=z:2181"]
    with pytest.raises(ToolError, match="the ACLs are in the broker, not in ZooKeeper; write --b"):
        ToolParser("kafka-acls", "x").parse(words)


def test_version_is_that_of_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        ToolParser("kafka-topics", "x").parse(["--version"])
    assert raised.value.code == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", capsys.readouterr().out)
