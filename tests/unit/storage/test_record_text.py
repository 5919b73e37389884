"""Contents of records are text if they are UTF-8, else base64."""

from __future__ import annotations

import pytest

from kafkalite.storage.record_text import bytes_of, text_and_base64


@pytest.mark.parametrize(
    ("content", "text", "base64"),
    [(None, None, None), (b"", "", None), ("ü".encode(), "ü", None), (b"\xff\0", None, "/wA=")],
)
def test_content_is_described_and_restored(
    content: bytes | None, text: str | None, base64: str | None
) -> None:
    assert text_and_base64(content) == (text, base64)
    assert bytes_of(text, base64) == content


@pytest.mark.parametrize("base64", ["/wA", "?", "ü"])
def test_other_text_is_no_base64(base64: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - texts of the library
        bytes_of(None, base64)
