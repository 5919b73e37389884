"""`kafkalite capture`: its output, its files, and invalid options."""

from __future__ import annotations

import re
import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.cli.main import main
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.testing import Broker
from tests.clients.served_proxy import ServedProxy
from tests.conformance.raw import RawClient
from tests.unit.lab.proxy.certificates import Certificates

if TYPE_CHECKING:
    from pathlib import Path

METADATA = 3


class Upstream:
    """Run a broker in this process, as the cluster behind the proxy."""

    name = "kafkalite"

    def __init__(self, broker: Broker) -> None:
        self.bootstrap = broker.bootstrap_servers


def test_traffic_is_recorded_until_ctrl_c_and_totals_are_printed(tmp_path: Path) -> None:
    with Broker(topics={"orders": 1}) as broker:
        proxy = ServedProxy(Upstream(broker), tmp_path)  # type: ignore[arg-type]  # it is not restarted
        proxy.open()
        with closing(RawClient(proxy.port)) as client:
            (node,) = client.call(MetadataRequest(topics=None), 12).brokers
        with closing(RawClient(node.port)) as client:
            client.call(MetadataRequest(topics=None), 12)
        proxy.close()
        inside = int(broker.bootstrap_servers.rpartition(":")[2])
    found = re.match(
        r"2 connections, (\d) requests, (\d+) bytes from clients and (\d+) to them\n"
        r"  files in (.*)\n",
        proxy.summary,
    )
    assert found is not None, proxy.summary
    assert found[4] == str(proxy.captures)
    assert int(found[1]) >= 2
    metadata_exchanges = [
        each for each in exchanges(read([proxy.captures], print)) if each.api_key == METADATA
    ]
    assert [each.connection.node_id for each in metadata_exchanges] == [-1, 1]
    assert all(inside.to_bytes(4) in (each.response or b"") for each in metadata_exchanges)
    assert "node found" in proxy.log()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--upstream", "nowhere"], "'nowhere' is not an address"),
        (["--upstream", ":9092"], "':9092' is not the address of a broker"),
        (["--upstream", "PLAINTEXT://host:9092"], "is not the address of a broker"),
        (
            ["--upstream", "host:9092", "--listen", "X://host:1"],
            "has a listener name: write HOST:PORT",
        ),
        (["--upstream", "host:9092", "--advertise", "host"], "'host' is not an address"),
        (["--upstream", "host:9092", "--insecure"], "--insecure is only valid with"),
        (["--upstream", "host:9092", "--upstream-ca", "f"], "--upstream-ca is only valid with"),
        (["--upstream", "host:9092", "--tls-key", "f"], "--tls-key is only valid with"),
        (["--upstream", "host:9092", "--tls-cert", "none.pem"], "from none.pem: no such file"),
        (
            ["--upstream", "host:9092", "--upstream-tls", "--upstream-key", "f"],
            "--upstream-key is only valid with",
        ),
        (["--upstream", "host:9092", "--node-port", "1"], "'1' is not ID=PORT"),
        (["--upstream", "host:9092", "--node-port", "1=0"], "is not ID=PORT"),
        (
            ["--upstream", "h:1", "--node-port", "1=5", "--node-port", "2=5"],
            "--node-port names a node or a port twice",
        ),
        (["--upstream", "host:9092", "--max-request-bytes", "0"], "is not a number from 1"),
    ],
)
def test_invalid_option_is_rejected_in_one_line(
    options: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "captures"
    with pytest.raises(SystemExit) as ended:
        main(["capture", str(directory), *options])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert reason in error
    assert not directory.exists()


def test_port_in_use_is_rejected_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "captures"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SystemExit) as ended:
            main(["capture", str(directory), "--upstream", "broker:1", "--listen", address])
    assert ended.value.code == 2
    assert f"cannot listen on {address}" in capsys.readouterr().err
    assert not directory.exists()


def test_unwritable_directory_is_rejected_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    occupied = tmp_path / "file"
    occupied.touch()
    options = ["--upstream", "127.0.0.1:1", "--listen", "127.0.0.1:0"]
    with pytest.raises(SystemExit) as ended:
        main(["capture", str(occupied), *options])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_tls_options_of_both_sides_are_parsed(tmp_path: Path) -> None:
    """The proxy starts; the tests of the proxy cover TLS connections."""
    files = Certificates(tmp_path)
    options = ["--tls-cert", files.chain, "--tls-key", files.key, "--upstream-tls"]
    options += ["--upstream-ca", files.authority, "--upstream-cert", files.chain]
    options += ["--upstream-key", files.key, "--insecure", "--advertise", "127.0.0.1:0"]
    with Broker() as broker:
        proxy = ServedProxy(Upstream(broker), tmp_path, options)  # type: ignore[arg-type]
        proxy.open()
        proxy.close()
    assert "0 connections, 0 requests" in proxy.summary
