"""Options of commands to a cluster."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.access_options import ACCESS_OPTIONS, add_access_options
from kafkalite.testing import Broker
from tests.unit.cli.command import Shell

if TYPE_CHECKING:
    from pathlib import Path


def test_host_of_the_address_may_be_missing(cluster: Broker, shell: Shell) -> None:
    port = cluster.bootstrap_servers.rpartition(":")[2]
    assert shell.run_alone(["topic", "list", "--bootstrap-server", f":{port}"]).status == 0
    addresses = ["--bootstrap-server", "127.0.0.1:1", "--bootstrap-server", f"[::1]:2,:{port}"]
    assert shell.run_alone(["topic", "list", *addresses]).status == 0


def test_cluster_that_does_not_answer_is_one_sentence(shell: Shell) -> None:
    result = shell.run_alone(["topic", "list", "--bootstrap-server", "127.0.0.1:1"])
    assert (result.status, result.output) == (1, "")
    assert result.error.startswith("kafkalite: no broker answers at 127.0.0.1:1: ")
    result = shell.run_alone(["topic", "list", "--bootstrap-server", "here"])
    assert (result.status, "'here' is not an address" in result.error) == (2, True)


def test_options_for_tls_and_sasl_are_listed() -> None:
    parser = ArgumentParser(add_help=False)
    add_access_options(parser)
    assert set(vars(parser.parse_args([]))) == {each.replace("-", "_") for each in ACCESS_OPTIONS}


@pytest.mark.parametrize("option", [["--tls"], ["--password-file", "secret"]])
def test_properties_and_options_cannot_be_combined(shell: Shell, option: list[str]) -> None:
    result = shell.run("topic", "list", "--command-config", "client.properties", *option)
    assert result.status == 2
    assert f"--command-config and {option[0]} cannot be combined" in result.error


def test_client_logs_in_with_properties_or_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config="
        "a.ScramLoginModule required username=alice password=secret;\n"
    )
    password = tmp_path / "password"
    password.write_text("secret\n")
    with Broker(security="SASL_PLAINTEXT", users={"alice": "secret"}) as broker:
        shell = Shell(broker.bootstrap_servers, capsys, monkeypatch)
        assert shell.run("topic", "list", "--command-config", str(path)).status == 0
        login = ["--sasl-mechanism", "PLAIN", "--user", "alice", "--password-file", str(password)]
        assert shell.run("topic", "list", *login).status == 0
        assert shell.run("fence-producers", "any", *login).status == 0
        assert shell.run("topic", "list").status == 1
    path.write_text("security.protocol=QUIC\n")
    result = shell.run("topic", "list", "--command-config", str(path))
    assert (result.status, f"{path}: security.protocol is one of" in result.error) == (2, True)
