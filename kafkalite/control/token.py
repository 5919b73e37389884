"""ControlToken: the bearer token of a control endpoint, given, generated or read from a file."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Final

from kafkalite.config.options import CONTROL_TOKEN_FORMAT
from kafkalite.ports.files import join
from kafkalite.ports.key_files import read_key_file, write_key_file

if TYPE_CHECKING:
    from kafkalite.ports.entropy import Entropy

TOKEN_FILE: Final = "control-token"  # noqa: S105 - the name of a file
"""The name of the file in the data directory with a generated token."""

_MAX_FILE_BYTES: Final = 64 * 1024


class TokenError(ValueError):
    """A token that cannot be used; the text is one line, without the token."""


class ControlToken:
    """A token, and the file that has it; its representation does not show the token."""

    __slots__ = ("_digest", "file", "text")

    def __init__(self, text: str, file: str | None = None) -> None:
        self.text = text
        self.file = file
        self._digest = _digest(text)

    def matches(self, given: str) -> bool:
        """Return whether a client gave this token; the time does not depend on the token."""
        return compare_digest(_digest(given), self._digest)


def _digest(text: str) -> bytes:
    # Digests have the same length, so the time does not depend on the length of the token.
    return sha256(text.encode(errors="surrogatepass")).digest()


def given_token(text: str) -> ControlToken:
    """Return the token that `text` defines: the token itself, or @FILE. Raises TokenError."""
    if not text.startswith("@"):
        if not re.fullmatch(CONTROL_TOKEN_FORMAT, text):
            raise TokenError("the control token has an invalid length or characters")
        return ControlToken(text)
    path = text[1:]
    try:
        return ControlToken(_read(path), path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise TokenError(f"cannot read a control token from {path}: {reason}") from error


def generated_token(entropy: Entropy) -> ControlToken:
    """Return a new token."""
    return ControlToken(urlsafe_b64encode(entropy.uuid() + entropy.uuid()).decode().rstrip("="))


def stored_token(directory: str, entropy: Entropy) -> ControlToken:
    """Return the token in the file of a directory; generates it if the file has none.

    Only this user can read the file. Raises TokenError.
    """
    path = join(directory, TOKEN_FILE)
    try:
        return ControlToken(_read(path), path)
    except (OSError, TokenError):
        text = generated_token(entropy).text
    try:
        write_key_file(path, f"{text}\n".encode())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise TokenError(f"cannot store a control token in {path}: {reason}") from error
    return ControlToken(text, path)


def _read(path: str) -> str:
    """Return the token in the first line of a file; raises OSError or TokenError."""
    line = read_key_file(path)[:_MAX_FILE_BYTES].partition(b"\n")[0]
    text = line.decode("ascii", errors="replace").strip()
    if not re.fullmatch(CONTROL_TOKEN_FORMAT, text):
        raise TokenError(f"the first line of {path} is not a control token")
    return text
