"""Records in lines of text, as `LineMessageReader` of Kafka's console producer reads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalite.client.record_sender import NumberedRecord
from kafkalite.client.records import ProducerRecord
from kafkalite.docker.tools.arguments import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_SEPARATORS: Final = {
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
}
"""Property → its default."""
_SWITCHES: Final = ("parse.key", "parse.headers", "ignore.error")
_NULL: Final = "null.marker"
PROPERTIES: Final = (*_SWITCHES, *_SEPARATORS, _NULL)
_DIFFERENT: Final = (
    ("headers.delimiter", "headers.separator"),
    ("headers.delimiter", "headers.key.separator"),
    ("headers.separator", "headers.key.separator"),
    *((_NULL, each) for each in _SEPARATORS),
)
"""Properties that may not have the same value."""


class LineReader:
    """Converts lines to records, as the properties of a reader say."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Create it; raises ToolError for properties that Kafka's reader refuses."""
        values = {**_SEPARATORS, **properties}
        for first, second in _DIFFERENT:
            if values.get(first) == values[second]:
                raise ToolError(f"{first} and {second} may not be equal")
        self._parses_key, self._parses_headers, self._ignores_errors = (
            values.get(name, "false").strip().lower() == "true" for name in _SWITCHES
        )
        self._key_separator, self._headers_delimiter = (
            values[name].encode() for name in ("key.separator", "headers.delimiter")
        )
        try:
            self._headers_separator = re.compile(values["headers.separator"].encode())
        except re.error as error:
            raise ToolError(f"headers.separator is no regular expression: {error}") from None
        self._header_key_separator = values["headers.key.separator"].encode()
        marker = values.get(_NULL)
        self._null = None if marker is None else marker.encode()

    def records(self, lines: Iterable[bytes], position: int) -> Iterator[NumberedRecord]:
        """Yield a record for each line; raises ToolError for a line without a separator.

        `position` is the number of lines before these.
        """
        for number, line in enumerate(lines, position + 1):
            yield NumberedRecord(number, self._record(number, line))

    def _record(self, number: int, line: bytes) -> ProducerRecord:
        rest = line
        headers: bytes | None = None
        key: bytes | None = None
        if self._parses_headers:
            headers, rest = self._split(
                number, line, rest, self._headers_delimiter, "headers delimiter"
            )
        if self._parses_key:
            key, rest = self._split(number, line, rest, self._key_separator, "key separator")
        has_headers = headers is not None and headers != self._null
        pairs = self._headers_separator.split(headers) if has_headers and headers else []
        return ProducerRecord(
            self._content(rest),
            self._content(key),
            tuple(self._header(number, pair) for pair in pairs),
        )

    def _split(
        self, number: int, line: bytes, rest: bytes, separator: bytes, name: str
    ) -> tuple[bytes | None, bytes]:
        """Return the bytes before a separator, None without it, and those after it."""
        before, found, after = rest.partition(separator)
        if found:
            return before, after
        if self._ignores_errors:
            return None, rest
        text = line.decode(errors="replace")
        raise ToolError(f"No {name} found on line number {number}: '{text}'")

    def _header(self, number: int, pair: bytes) -> tuple[str, bytes | None]:
        key, found, value = pair.partition(self._header_key_separator)
        if found:
            return key.decode(errors="replace"), self._content(value)
        if self._ignores_errors:
            return pair.decode(errors="replace"), None
        text = pair.decode(errors="replace")
        raise ToolError(f"No header key separator found in pair '{text}' on line number {number}")

    def _content(self, content: bytes | None) -> bytes | None:
        return None if content == self._null else content
