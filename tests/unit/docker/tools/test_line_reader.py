"""Records in lines."""

from __future__ import annotations

import pytest

from kafkalite.client.records import ProducerRecord
from kafkalite.docker.tools.arguments import ToolError
from kafkalite.docker.tools.line_reader import LineReader

ALL = {"parse.key": "true", "parse.headers": "true", "null.marker": "NULL"}


def read(properties: dict[str, str], line: bytes) -> ProducerRecord:
    (numbered,) = LineReader(properties).records([line], 4)
    assert numbered.number == 5
    return numbered.record


def test_headers_and_keys_are_read() -> None:
    assert read(ALL, b"a:1,b:NULL\tk\tv\tw") == ProducerRecord(
        b"v\tw", b"k", (("a", b"1"), ("b", None))
    )
    assert read(ALL, b"NULL\tNULL\tNULL") == ProducerRecord(None, None, ())


def test_a_null_marker_is_no_content() -> None:
    assert read({"parse.key": "true", "null.marker": "-"}, b"-\t-") == ProducerRecord(None, None)


def test_errors_may_be_ignored() -> None:
    ignoring = {**ALL, "ignore.error": "true"}
    assert read(ignoring, b"plain") == ProducerRecord(b"plain", None, ())
    assert read(ignoring, b"a\tk\tv") == ProducerRecord(b"v", b"k", (("a", None),))


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"plain", "No headers delimiter found on line number 5: 'plain'"),
        (b"a:1\tplain", "No key separator found on line number 5: 'a:1\tplain'"),
        (b"a\tk\tv", "No header key separator found in pair 'a' on line number 5"),
    ],
)
def test_a_missing_separator_is_an_error(line: bytes, error: str) -> None:
    with pytest.raises(ToolError) as raised:
        read(ALL, line)
    assert str(raised.value) == error


def test_equal_separators_are_refused() -> None:
    with pytest.raises(ToolError, match=r"null.marker and key.separator may not be equal"):
        LineReader({"null.marker": "\t"})
