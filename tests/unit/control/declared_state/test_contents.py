"""The bytes of records, and the files that they come from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.control.declared_state import contents as contents_module
from kafkalite.control.declared_state.contents import ContentReader
from kafkalite.control.declared_state.shape import MisplacedError, state_of

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.control.declared_state.contents import Content


def contents(directory: Path, topic: dict[str, Any]) -> list[Content]:
    return ContentReader(str(directory)).contents(state_of({"topics": {"t": topic}}))["t"]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({}, None),
        ({"value": "\u00e4"}, b"\xc3\xa4"),
        ({"value_json": {"b": ["\u00e4", 1.5]}}, b'{"b":["\xc3\xa4",1.5]}'),
        ({"value_json": None}, b"null"),
        ({"value_hex": "00 FF"}, b"\0\xff"),
        ({"value_base64": "AP8="}, b"\0\xff"),
        ({"value_file": "v.bin"}, b"\xfe"),
    ],
)
def test_a_value_has_several_forms(
    tmp_path: Path, record: dict[str, Any], expected: bytes | None
) -> None:
    (tmp_path / "v.bin").write_bytes(b"\xfe")
    (content,) = contents(tmp_path, {"records": [record]})
    assert (content.key, content.value) == (None, expected)


def test_a_record_has_headers_a_time_and_a_place(tmp_path: Path) -> None:
    record = {"timestamp": "1970-01-01T00:00:01Z", "partition": 2, "offset": 7, "key": "k"}
    headers = [{"key": "a", "value": "b"}, {"key": "a", "value_base64": "/w=="}, {"key": "n"}]
    first, second = contents(
        tmp_path,
        {"records": [{**record, "headers": headers}, {"timestamp": 5, "headers": {"x": None}}]},
    )
    assert first[1:] == (b"k", None, (("a", b"b"), ("a", b"\xff"), ("n", None)), 1000, 2, 7)
    assert second[1:] == (None, None, (("x", None),), 5, None, None)


def test_a_file_has_more_records(tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text('{"value": "b"}\n\n{"value": "c"}\n')
    found = contents(tmp_path, {"records": [{"value": "a"}], "records_file": "more.jsonl"})
    assert [(each.path[2:], each.value) for each in found] == [
        (("records", 0), b"a"),
        (("records_file", 1), b"b"),
        (("records_file", 3), b"c"),
    ]


@pytest.mark.parametrize(
    ("topic", "path", "text"),
    [
        ({"records": [{"value_hex": "0"}]}, ("records", 0), "value_hex must be hexadecimal, such"),
        ({"records": [{"key_base64": "="}]}, ("records", 0), "key_base64 must be base64, such as"),
        ({"records": [{"value_file": "no"}]}, ("records", 0), "value_file: cannot read"),
        ({"records": [{"value_file": "a\0"}]}, ("records", 0), "value_file: cannot read"),
        ({"records": [{"value_json": float("nan")}]}, ("records", 0), "value_json cannot be writt"),
        ({"records_file": "no"}, (), "records_file: cannot read"),
        ({"records_file": "lines"}, ("records_file", 2), "value must be text, not 1"),
        ({"records_file": "half"}, ("records_file", 1), "not JSON: "),
        ({"records_file": "twice"}, ("records_file", 1), "not JSON: 'value' is given twice"),
        ({"records_file": "pipe"}, (), "pipe' is not a regular file"),
        ({"records_file": "."}, (), "is not a regular file"),
        (
            {"records": [{"headers": [{"key": "a", "value": "", "value_hex": ""}]}]},
            ("records", 0),
            "headers: a header takes one of value and value_hex",
        ),
        ({"records": [{"headers": {"\ud800": ""}}]}, ("records", 0), "headers must be text"),
    ],
)
def test_invalid_contents_have_a_path(
    tmp_path: Path, topic: dict[str, Any], path: tuple[str | int, ...], text: str
) -> None:
    (tmp_path / "lines").write_text('{"value": "a"}\n{"value": 1}\n')
    (tmp_path / "half").write_text("{")
    (tmp_path / "twice").write_text('{"value": "a", "value": "b"}')
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MisplacedError) as raised:
        contents(tmp_path, topic)
    assert raised.value.path[2:] == path
    assert text in str(raised.value)


def test_files_have_a_limit_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents_module, "MAX_FILE_BYTES", 5)
    for name in ("a", "b"):
        (tmp_path / name).write_text("xxx")
    records = [{"value_file": name} for name in ("a", "a", "b")]
    assert len(contents(tmp_path, {"records": records[:2]})) == 2
    with pytest.raises(MisplacedError, match=r"at most 5 bytes together, and .*b' exceeds this"):
        contents(tmp_path, {"records": records})
