"""How a cluster is reached that wants TLS or a password."""

from __future__ import annotations

import io
import ssl
from argparse import ArgumentParser
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.reaching import access_from, add_access_options
from kafkalite.control.access import MECHANISMS, OPEN, Login

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.control.access import Access


def accessed(*options: str) -> Access:
    parser = ArgumentParser()
    add_access_options(parser)
    return access_from(parser.parse_args(options))


def test_without_options_it_is_open() -> None:
    assert accessed() == OPEN


def test_a_password_comes_from_a_file_or_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("pencil\nanother line\n")
    for mechanism in MECHANISMS:
        options = ("--sasl-mechanism", mechanism, "--user", "u", "--password-file")
        login = Login(mechanism, "u", "pencil")
        assert accessed(*options, str(file)).login == login
        monkeypatch.setattr("sys.stdin", io.StringIO("pencil\n"))
        assert accessed(*options, "-").login == login


def test_tls_trusts_who_it_is_told_to() -> None:
    checked, unchecked = accessed("--tls").tls, accessed("--tls", "--insecure").tls
    assert checked is not None
    assert unchecked is not None
    assert checked.verify_mode is ssl.CERT_REQUIRED
    assert unchecked.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--ca", "f"], "--ca is of no use without --tls"),
        (["--insecure"], "--insecure is of no use without --tls"),
        (["--tls", "--key", "f"], "--key is of no use without --cert"),
        (["--tls", "--ca", "/gone"], "no authorities can be read from /gone"),
        (["--user", "u"], "--user is of no use without --sasl-mechanism"),
        (["--sasl-mechanism", "PLAIN", "--user", "u"], "needs --user and --password-file"),
        (
            ["--sasl-mechanism", "PLAIN", "--user", "u", "--password-file", "/gone"],
            "no password can be read from /gone: no such file",
        ),
        (
            ["--sasl-mechanism", "PLAIN", "--user", "u", "--password-file", "/dev/null"],
            "there is no password in /dev/null",
        ),
    ],
)
def test_options_that_cannot_go_together_are_told(options: list[str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        accessed(*options)
