"""`kafkalite identity`: output and exit status."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.main import main
from kafkalite.testing import Broker
from tests.unit.identity.assertions import public_pem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    with Broker(control=True, oidc=True) as running:
        monkeypatch.setenv("KAFKALITE_CONTROL", running.control_url)
        yield running


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    main(["identity", *arguments])
    return capsys.readouterr().out.splitlines()


def test_the_provider_is_shown(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    (key,) = broker.identity.key_ids
    assert run(capsys, "show") == [
        f"issuer {broker.identity.issuer}, audience kafka, lifetime 3600000 ms",
        "client kafkalite: secret, all scopes",
        f"key {key}: RS256, signs",
    ]
    shown = json.loads("\n".join(run(capsys, "show", "--json")))
    assert shown["issuer"] == broker.identity.issuer


@pytest.mark.usefixtures("broker")
def test_tokens_are_changed(capsys: pytest.CaptureFixture[str]) -> None:
    head, *_ = run(capsys, "set", "--audience", "x", "--token-lifetime", "5m")
    assert head.endswith("audience x, lifetime 300000 ms")


def test_clients_are_added_and_removed(
    broker: Broker,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "key.pem").write_text(public_pem())
    (tmp_path / "secret").write_text("s3cr3t\nignored\n")
    files = ("--secret-file", str(tmp_path / "secret"), "--public-key", str(tmp_path / "key.pem"))
    scopes = ("--scope", "read", "--scope", "write", "--subject", "alice")
    assert run(capsys, "add-client", "a", *files, *scopes, "--token-lifetime", "1m") == [
        "client a: secret, public key, scopes read write"
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("s3cr3t"))
    assert run(capsys, "add-client", "b", "--secret-file", "-") == ["client b: secret, all scopes"]
    assert run(capsys, "remove-client", "a") == ["client a: secret, public key, scopes read write"]
    assert broker.identity.client_ids == ["kafkalite", "b"]


def test_keys_are_rotated(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    (first,) = broker.identity.key_ids
    (line,) = run(capsys, "add-key", "--algorithm", "ES256")
    assert re.fullmatch(r"key [-0-9a-f]{36}: ES256, signs", line)
    assert run(capsys, "retire-key", first) == [f"key {first}: RS256"]


@pytest.mark.usefixtures("broker")
def test_failures_are_added_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "fail", "expired", "--client", "a", "--times", "2") == [
        "failure i1: expired, endpoint token, client a, 2 times (0 fired)"
    ]
    assert run(capsys, "fail", "slow", "--endpoint", "jwks", "--delay", "2s") == [
        "failure i2: slow, endpoint jwks, 2000 ms (0 fired)"
    ]
    assert run(capsys, "repair", "i1") == [
        "failure i1: expired, endpoint token, client a, 2 times (0 fired)"
    ]
    assert len(run(capsys, "repair", "--all")) == 1
    assert run(capsys, "repair", "--all") == ["no failures"]


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (("repair",), 2, "needs either the ID of a failure"),
        (("repair", "i1", "--all"), 2, "needs either the ID of a failure"),
        (("set",), 2, "needs --audience"),
        (("add-client", "a", "--secret-file", "/absent"), 2, "cannot read /absent"),
        (("fail", "slow", "--delay", "soon"), 2, "soon"),
        (("add-client", "a"), 1, "needs a secret or a public_key"),
        (("retire-key", "x"), 1, "there is no key 'x'"),
    ],
)
@pytest.mark.usefixtures("broker")
def test_errors_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, reason: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["identity", *arguments])
    assert ended.value.code == status
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line
