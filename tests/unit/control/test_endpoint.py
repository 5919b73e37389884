"""Endpoints as their clients find them: URL, token and trusted authorities."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.client import ControlClient, ControlError
from kafkalite.control.commands.clock import ChangeClock, ShowClock
from kafkalite.control.commands.faults import ListFaults
from kafkalite.control.endpoint import Endpoint, EndpointError, failure_text, find_endpoint
from kafkalite.control.local_endpoints import LocalEndpoint, publish_endpoint
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a-token-of-tests"  # noqa: S105 - of brokers that live for a moment
OTHER = "another-token-of-tests"


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_without_options_the_endpoint_has_neither_token_nor_tls() -> None:
    assert find_endpoint("9097") == Endpoint("http://127.0.0.1:9097")


def test_a_token_is_sent_as_bearer() -> None:
    assert find_endpoint("9097", TOKEN).headers == {"Authorization": f"Bearer {TOKEN}"}


def test_the_files_of_a_local_endpoint_are_used(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    publish_endpoint(9097, LocalEndpoint("http", str(tmp_path / "token"), None))
    for address in ("9097", "localhost:9097", "http://127.0.0.1:9097", "[::1]:9097"):
        assert find_endpoint(address).headers == {"Authorization": f"Bearer {TOKEN}"}
    assert find_endpoint("9097", OTHER).headers == {"Authorization": f"Bearer {OTHER}"}


@pytest.mark.parametrize("address", ["http://box:9097", "10.0.0.1:9097", "9098"])
def test_another_endpoint_does_not_get_the_token_of_the_local_one(
    tmp_path: Path, address: str
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    publish_endpoint(9097, LocalEndpoint("http", str(tmp_path / "token"), None))
    assert find_endpoint(address).headers == {}


def test_plain_http_does_not_get_the_token_of_an_endpoint_with_tls(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    publish_endpoint(9097, LocalEndpoint("https", str(tmp_path / "token"), None))
    assert find_endpoint("http://127.0.0.1:9097").headers == {}
    assert find_endpoint("9097").url == "https://127.0.0.1:9097"


@pytest.mark.parametrize("content", [None, b"no certificate"])
def test_an_unusable_authority_is_reported(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(EndpointError, match=r"cannot use the authorities in .*ca\.pem: \S"):
        find_endpoint("https://127.0.0.1:1", authority_file=str(path))


def test_commands_find_token_and_authority_of_a_local_broker() -> None:
    with Broker(security="SSL", control=True, control_token="auto", clock="manual") as broker:  # noqa: S106
        port = broker.control_url.rpartition(":")[2]
        assert broker.control_url.startswith("https://")
        client = ControlClient(find_endpoint(port))
        assert client.send(ChangeClock(1_000)).mode == "manual"
        explicit = find_endpoint(broker.control_url, broker.control_token, broker.control_ca)
        assert ControlClient(explicit).send(ListFaults()).faults == ()
        with pytest.raises(ControlError, match="not that of this control API"):
            ControlClient(find_endpoint(port, OTHER)).send(ShowClock())
        with pytest.raises(ControlError, match=r"certificate of .* is not trusted: .*--control-ca"):
            ControlClient(Endpoint(broker.control_url, {}, ssl.create_default_context())).send(
                ShowClock()
            )
        with pytest.raises(ControlError, match="has TLS: use https://"):
            ControlClient(find_endpoint(f"http://127.0.0.1:{port}")).send(ShowClock())


def test_https_to_an_endpoint_without_tls_is_reported() -> None:
    with Broker(control=True) as broker:
        client = ControlClient(find_endpoint(broker.control_url.replace("http:", "https:")))
        with pytest.raises(ControlError, match="does not use TLS, so write http://"):
            client.send(ShowClock())


def test_a_failure_is_one_line() -> None:
    assert failure_text("http://h:1", ConnectionRefusedError(111, "Refused")) == (
        "no control endpoint answers at http://h:1: refused "
        "(start the broker with --control, or give its address)"
    )
