"""Keys, values and headers of records as text or base64, for JSON."""

from __future__ import annotations

from base64 import b64decode, b64encode


def text_and_base64(content: bytes | None) -> tuple[str | None, str | None]:
    """Return bytes as text if they are UTF-8, else in base64; neither for None."""
    if content is None:
        return None, None
    try:
        return content.decode(), None
    except UnicodeDecodeError:
        return None, b64encode(content).decode("ascii")


def bytes_of(text: str | None, base64: str | None) -> bytes | None:
    """Return the bytes that `text_and_base64` has described; raises ValueError for no base64."""
    if base64 is None:
        return None if text is None else text.encode()
    return b64decode(base64, validate=True)
