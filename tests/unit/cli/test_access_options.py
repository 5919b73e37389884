"""Connection options for TLS and SASL."""

from __future__ import annotations

import io
import ssl
from argparse import ArgumentParser
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.access_options import access_from, add_access_options
from kafkalite.client.access import MECHANISMS, PLAINTEXT, Login

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.client.access import Access


def parsed_access(*options: str) -> Access:
    parser = ArgumentParser()
    add_access_options(parser)
    return access_from(parser.parse_args(options))


def test_no_options_connect_without_tls_and_sasl() -> None:
    assert parsed_access() == PLAINTEXT


def test_password_is_read_from_a_file_or_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("pencil\nanother line\n")
    for mechanism in MECHANISMS:
        options = ("--sasl-mechanism", mechanism, "--user", "u", "--password-file")
        login = Login(mechanism, "u", "pencil")
        assert parsed_access(*options, str(file)).login == login
        monkeypatch.setattr("sys.stdin", io.StringIO("pencil\n"))
        assert parsed_access(*options, "-").login == login


def test_tls_verifies_certificates_unless_insecure() -> None:
    checked, unchecked = parsed_access("--tls").tls, parsed_access("--tls", "--insecure").tls
    assert checked is not None
    assert unchecked is not None
    assert checked.verify_mode is ssl.CERT_REQUIRED
    assert unchecked.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--ca", "f"], "--ca is only valid with --tls"),
        (["--insecure"], "--insecure is only valid with --tls"),
        (["--tls", "--key", "f"], "--key is only valid with --cert"),
        (["--tls", "--ca", "/gone"], "cannot read CA certificates from /gone"),
        (["--user", "u"], "--user is only valid with --sasl-mechanism"),
        (["--sasl-mechanism", "PLAIN", "--user", "u"], "needs --user and --password-file"),
        (
            ["--sasl-mechanism", "PLAIN", "--user", "u", "--password-file", "/gone"],
            "cannot read a password from /gone: no such file",
        ),
        (
            ["--sasl-mechanism", "PLAIN", "--user", "u", "--password-file", "/dev/null"],
            "there is no password in /dev/null",
        ),
    ],
)
def test_invalid_combination_of_options_is_rejected(options: list[str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parsed_access(*options)
