"""The form that writes a record: the command in it, and the texts of a record that is copied."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as BinasciiError
from typing import TYPE_CHECKING, Final

from kafkalite.config.typed_json import number_of, quote, read
from kafkalite.control.commands.records import Header, NewRecordFields, ProduceRecords
from kafkalite.control.console.record_texts import is_text
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.times import instant_ms
from kafkalite.storage.record_text import text_and_base64

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.control.console.forms import Query
    from kafkalite.storage.record_format import Headers

TEXT, HEX, BASE64, NULL = "text", "hex", "base64", "null"
ENCODINGS: Final = (TEXT, HEX, BASE64, NULL)
MAX_COPIED_BYTES: Final = 20_000
"""The maximum size of a record that is copied: a form in hexadecimal numbers has at most 64 KiB."""
_LIST: Final = "["


class FormRecord(NamedTuple):
    """The texts of a form."""

    key: str = ""
    key_as: str = TEXT
    value: str = ""
    value_as: str = TEXT
    headers: str = ""


def form_record(key: bytes | None, value: bytes | None, headers: Headers) -> FormRecord:
    """Return the texts of a form that writes an equal record."""
    # An empty text is no key.
    key_text = ("", HEX) if key == b"" else _text_of(key)
    return FormRecord(*key_text, *_text_of(value), _header_lines(headers))


def _text_of(content: bytes | None) -> tuple[str, str]:
    """Return the text and the encoding of bytes; browsers change carriage returns in text."""
    if content is None:
        return "", NULL
    if is_text(content) and b"\r" not in content:
        return content.decode(), TEXT
    return content.hex(" "), HEX


def _header_lines(headers: Headers) -> str:
    """Return headers as lines, or as the list of the control API if lines cannot have them."""
    lines = []
    for name, value in headers:
        is_line = value is not None and is_text(value) and not {*value} & {*b"\r\n"}
        text = "" if value is None or not is_line else value.decode()
        if not is_line or text != text.strip() or _is_special(name):
            return json.dumps([_header_json(*each) for each in headers], indent=1)
        lines.append(f"{name}: {text}")
    return "\n".join(lines)


def _is_special(name: str) -> bool:
    encoded = name.encode(errors="surrogatepass")
    has_mark = ":" in name or "\r" in name or "\n" in name or name.startswith(_LIST)
    return not name or name != name.strip() or has_mark or not is_text(encoded)


def _header_json(name: str, value: bytes | None) -> Mapping[str, str]:
    text, base64 = text_and_base64(value)
    given = {"key": name, "value": text, "value_base64": base64}
    return {field: each for field, each in given.items() if each is not None}


def produce_command(form: Query) -> ProduceRecords:
    """Return the command of a form; raises ValueError that names the field."""
    topic = form.text("topic")
    if not topic:
        raise ValueError("topic must be the name of a topic")
    partition = form.optional("partition")
    time = form.text("time")
    key, key_as = form.text("key"), form.text("key_as", TEXT)
    record = NewRecordFields(
        **_given("key", key, NULL if key_as == TEXT and not key else key_as),
        **_given("value", form.text("value"), form.text("value_as", TEXT)),
        headers=_headers(form.text("headers")),
        timestamp_ms=None if not time else _time_ms(time),
    )
    index = None if partition is None else form.whole("partition", 0, maximum=2**31 - 1)
    return ProduceRecords(topic, (record,), index)


def _time_ms(text: str) -> int:
    number = number_of(text)
    return number if isinstance(number, int) and number >= 0 else instant_ms(text)


def _given(name: str, text: str, encoding: str) -> Mapping[str, str | None]:
    """Return the fields of a key or a value."""
    if encoding not in ENCODINGS:
        raise ValueError(f"{name}_as must be {', '.join(ENCODINGS)}, not {quote(encoding)}")
    if encoding == NULL:
        if text:
            raise ValueError(f"{name} is null, so it must have no text: select text, hex or base64")
        return {name: None}
    if encoding == TEXT:
        # Browsers send line ends as CR LF.
        return {name: text.replace("\r\n", "\n")}
    try:
        content = bytes.fromhex(text) if encoding == HEX else b64decode(text, validate=True)
    except (ValueError, BinasciiError) as error:
        raise ValueError(f"{name} must be {encoding}, not {quote(text)}") from error
    return {f"{name}_base64": b64encode(content).decode("ascii")}


def _headers(text: str) -> tuple[Header, ...]:
    """Return the headers of lines with `name: value`, or of a JSON list."""
    if text.lstrip().startswith(_LIST):
        try:
            given = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"headers must be lines or a JSON list: {error}") from error
        return tuple(read(Header, each, "a header") for each in given)
    found = []
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon or not name.strip():
            raise ValueError(f"headers has the line {quote(line)}: write NAME: VALUE")
        found.append(Header(name.strip(), value.strip()))
    return tuple(found)
