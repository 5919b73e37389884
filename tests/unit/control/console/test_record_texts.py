"""Bytes of records as text, JSON and hexadecimal numbers."""

from __future__ import annotations

import json

import pytest

from kafkalite.control.console.record_texts import (
    FORMATS,
    HEX,
    JSON,
    MAX_BYTES,
    MAX_LINE,
    TEXT,
    format_of,
    indented,
    is_text,
    show,
    show_line,
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", TEXT),
        (b"plain", TEXT),
        ("é\n\t".encode(), TEXT),
        (b"42", TEXT),
        (b' {"a": 1}', JSON),
        (b"[1, 2]", JSON),
        (b"{a}", TEXT),
        (b"[" * 100_000, TEXT),
        (b'{"a": ' + b"1" * 5_000 + b"}", TEXT),
        (b"\x00\x01", HEX),
        (b"\xff\xfe", HEX),
        (b"a\x1b[31m", HEX),
    ],
)
def test_the_format_follows_from_the_bytes(content: bytes, expected: str) -> None:
    assert format_of(content) == expected


def test_a_format_can_be_selected() -> None:
    assert show(b"abc", HEX).text.startswith("00000000  61 62 63 ")
    assert show(b"abc", HEX).text.endswith("  abc")
    assert show(b"\xff<", TEXT).text == "\\xff<"
    assert format_of(b"42", JSON) == JSON
    assert format_of(b"abc", JSON) == TEXT
    assert show(None, HEX) == show_line(None)


def test_names_and_numbers_of_json_remain() -> None:
    text = '{"a":1.50,"a":[ ],"b":{"c":[true,null,"\\u0041{,"]},"d":{}, "e" : 1E5}'
    shown = indented(text)
    assert shown.splitlines()[:3] == ["{", '  "a": 1.50,', '  "a": [],']
    assert '"\\u0041{,"' in shown
    assert "1E5" in shown
    assert "".join(shown.split()) == "".join(text.split())
    assert json.loads(shown) == json.loads(text)


@pytest.mark.parametrize("wished", FORMATS)
@pytest.mark.parametrize("content", [b"\xe2\x82\xac" * 100_000, b"\x00" * 200_000])
def test_large_bytes_are_shown_in_part(content: bytes, wished: str) -> None:
    shown = show(content, wished)
    assert (shown.size, shown.is_cut) == (len(content), True)
    assert 0 < shown.shown <= MAX_BYTES
    line = show_line(content, wished)
    assert line.is_cut
    assert len(line.text) <= MAX_LINE
    assert "\n" not in line.text


def test_a_cut_character_is_text() -> None:
    content = b"a" + "€".encode() * MAX_BYTES
    assert is_text(content)
    assert not is_text(b"\xff" + content)
    assert not is_text(content[: MAX_BYTES // 2] + b"\xff" + content)


def test_characters_that_change_a_page_are_escaped() -> None:
    assert show("a\u202eb".encode()).text == "a\\u202eb"
    assert show_line(b"a\nb\tc").text == "a b c"
