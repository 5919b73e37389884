"""Tokens of control endpoints: given, read from a file, or generated."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.token import TOKEN_FILE, ControlToken, TokenError, given_token, stored_token
from kafkalite.ports.seeded_entropy import SeededEntropy

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a-token-of-tests"  # noqa: S105 - of no server


def test_only_the_token_matches() -> None:
    token = ControlToken(TOKEN)
    assert token.matches(TOKEN)
    for other in ("", TOKEN[:-1], f"{TOKEN}x", f" {TOKEN}", "ü", "\ud800"):
        assert not token.matches(other)


def test_the_representation_does_not_have_the_token() -> None:
    assert TOKEN not in repr(ControlToken(TOKEN))


def test_a_token_is_given_as_text_or_as_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\r\nnot the token\n")
    assert given_token(TOKEN).file is None
    read = given_token(f"@{file}")
    assert (read.text, read.file) == (TOKEN, str(file))


@pytest.mark.parametrize(
    "content", [b"", b"\n" + TOKEN.encode(), b"short\n", b"\xff" * 20, b"a b c d e"]
)
def test_a_file_without_a_token_is_rejected(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(TokenError, match="is not a control token"):
        given_token(f"@{file}")


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match=r"cannot read a control token from .*no such file"):
        given_token(f"@{tmp_path}/nothing")


def test_the_error_does_not_have_the_token() -> None:
    with pytest.raises(TokenError) as rejection:
        given_token("secret words")
    assert "secret" not in str(rejection.value)


def test_a_generated_token_is_stored_for_this_user_and_used_again(tmp_path: Path) -> None:
    token = stored_token(str(tmp_path), SeededEntropy())
    assert token.file == str(tmp_path / TOKEN_FILE)
    assert stat.S_IMODE((tmp_path / TOKEN_FILE).stat().st_mode) == 0o600
    assert len(token.text) == 43
    assert stored_token(str(tmp_path), SeededEntropy(7)).text == token.text
    assert given_token(f"@{token.file}").text == token.text
    (tmp_path / TOKEN_FILE).write_text("no token\n")
    assert stored_token(str(tmp_path), SeededEntropy(7)).text != token.text


def test_a_directory_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match="cannot store a control token in"):
        stored_token(str(tmp_path / "nothing"), SeededEntropy())
