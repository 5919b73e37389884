"""The records of a declared state as bytes, which may come from files."""

from __future__ import annotations

import json
import stat
from base64 import b64decode
from binascii import Error as Base64Error
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkalite.config.typed_json import JsonError, quote
from kafkalite.control.declared_state.json_values import check_json, unique_members
from kafkalite.control.declared_state.shape import (
    FORMS,
    NO_JSON,
    MisplacedError,
    State,
    StateRecord,
    read_at,
    record_at,
)
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.times import instant_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalite.control.declared_state.shape import Path as ValuePath
    from kafkalite.storage.record_format import Headers

MAX_FILE_BYTES: Final = 1024**3
"""The size of all files of a state together."""


class Content(NamedTuple):
    """A record to write, and the path of its description."""

    path: ValuePath
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None
    """None for the time of the load."""
    partition: int | None
    """None for the partition of the key."""
    offset: int | None
    """None for the next one."""


class ContentReader:
    """Reads the records of a state, and the files that it names."""

    def __init__(self, directory: str) -> None:
        """Read files relative to `directory`."""
        self._directory = Path(directory)
        self.files: dict[str, bytes] = {}
        """The files that were read, by the name in the state."""

    def contents(self, state: State) -> dict[str, list[Content]]:
        """Return the records by topic.

        Raises MisplacedError for a file that cannot be read, and for invalid bytes or partitions.
        """
        return {
            name: [
                self._content(path, record)
                for path, record in (
                    *(
                        (("topics", name, "records", index), record)
                        for index, record in enumerate(topic.records)
                    ),
                    *self._lines(("topics", name), topic.records_file),
                )
            ]
            for name, topic in state.topics.items()
        }

    def _lines(self, path: ValuePath, file: str | None) -> Iterator[tuple[ValuePath, StateRecord]]:
        """Yield the records of a file with lines of JSON, and the path of each."""
        if file is None:
            return
        content = read_at(path, lambda: self._read("records_file", file))
        for number, line in enumerate(content.splitlines(), 1):
            if not line.strip():
                continue
            at = (*path, "records_file", number)
            yield at, self._record_of_line(at, line)

    @staticmethod
    def _record_of_line(at: ValuePath, line: bytes) -> StateRecord:
        try:
            value = json.loads(line, object_pairs_hook=unique_members)
        except (ValueError, RecursionError) as error:
            raise MisplacedError(at, f"not JSON: {error}") from error
        check_json(at, value)
        return record_at(at, value)

    def _content(self, path: ValuePath, record: StateRecord) -> Content:
        def content() -> Content:
            time = record.timestamp
            return Content(
                path,
                self._bytes("key", record),
                self._bytes("value", record),
                _headers(record.headers),
                instant_ms(time) if isinstance(time, str) else time,  # type: ignore[arg-type]
                record.partition,
                record.offset,
            )

        return read_at(path, content)

    def _bytes(self, name: str, record: StateRecord) -> bytes | None:
        for form in FORMS:
            field = f"{name}{form}"
            given: Any = getattr(record, field)
            if form == "_json":
                if given is not NO_JSON:
                    return _json_bytes(field, given)
            elif given is not None:
                return self._read(field, given) if form == "_file" else _decode(field, given)
        return None

    def _read(self, field: str, name: str) -> bytes:
        """Return the content of a file; raises JsonError."""
        if name in self.files:
            return self.files[name]
        path = self._directory / name
        pending_bytes = MAX_FILE_BYTES - sum(map(len, self.files.values()))
        try:
            # To open a pipe could take forever.
            if not stat.S_ISREG(path.stat().st_mode):
                raise JsonError(f"{field}: {str(path)!r} is not a regular file")
            with path.open("rb") as file:
                content = file.read(pending_bytes + 1)
        except (OSError, ValueError) as error:
            if isinstance(error, JsonError):
                raise
            reason = getattr(error, "strerror", None) or str(error)
            raise JsonError(f"{field}: cannot read {str(path)!r}: {reason}") from error
        if len(content) > pending_bytes:
            raise JsonError(
                f"{field}: the files of a state have at most {MAX_FILE_BYTES} bytes together, and "
                f"{str(path)!r} exceeds this"
            )
        self.files[name] = content
        return content


def _json_bytes(field: str, value: object) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode()
    except ValueError as error:
        raise JsonError(f"{field} cannot be written as JSON: {error}") from error


def _decode(field: str, text: str) -> bytes:
    """Return the bytes of a text in the form that the name of its field has; raises JsonError."""
    decode: Callable[[str], bytes] = str.encode
    if field.endswith("_hex"):
        decode = bytes.fromhex
    elif field.endswith("_base64"):
        decode = _from_base64
    try:
        return decode(text)
    except (Base64Error, ValueError) as error:
        form = field.rpartition("_")[2]
        known = {"hex": "hexadecimal, such as 0aff", "base64": "base64, such as Cv8="}
        raise JsonError(f"{field} must be {known.get(form, 'text')}, not {quote(text)}") from error


def _from_base64(text: str) -> bytes:
    return b64decode(text, validate=True)


def _headers(given: Any) -> Headers:  # noqa: ANN401 - a checked JSON value
    if isinstance(given, dict):
        headers = [
            (name, None if text is None else _decode("headers", text))
            for name, text in given.items()
        ]
    else:
        headers = [(each["key"], _header_value(each)) for each in given or ()]
    for name, _ in headers:
        _decode("headers", name)
    return tuple(headers)


def _header_value(header: dict[str, str | None]) -> bytes | None:
    given = [name for name, text in header.items() if name != "key" and text is not None]
    if len(given) > 1:
        raise JsonError(f"headers: a header takes one of {' and '.join(given)}")
    return _decode(given[0], header[given[0]] or "") if given else None
