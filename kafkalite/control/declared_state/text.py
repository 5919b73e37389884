"""A declared state as text, which can be read again: YAML or JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import yaml

from kafkalite.config.typed_json import to_json
from kafkalite.control.declared_state.shape import StateHeader, StateRecord
from kafkalite.ports.clock import LATEST_MS
from kafkalite.ports.times import iso_of
from kafkalite.storage.record_text import text_and_base64

if TYPE_CHECKING:
    from kafkalite.control.declared_state.shape import State
    from kafkalite.storage.record_format import Headers

_WIDTH: Final = 100
_BY_PARTITION: Final = frozenset(("end_offsets", "offsets", "metadata"))


class _Dumper(yaml.SafeDumper):
    """Writes texts with line breaks and control characters in double quotes.

    In other styles, a reader would not get the same line breaks.
    """


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"'
    )


_Dumper.add_representer(str, _represent_text)


def state_text(state: State, *, as_json: bool = False) -> str:
    """Return a state as text, without default values."""
    shape = to_json(state)
    if as_json:
        return json.dumps(shape, ensure_ascii=False, indent=1) + "\n"
    if not shape:
        return "{}\n"
    for member in (*shape.get("topics", {}).values(), *shape.get("groups", {}).values()):
        for name in _BY_PARTITION & member.keys():
            member[name] = _with_numbers(member[name])
    return yaml.dump(
        shape,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=_WIDTH,
    )


def _with_numbers(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    """Return a mapping whose keys that are numbers need no quotes in YAML."""
    if not isinstance(value, dict):
        return value
    return {int(key) if key.isdigit() else key: _with_numbers(each) for key, each in value.items()}


def record_of(
    *,
    partition: int,
    offset: int | None,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> StateRecord:
    """Return a record in the form of a state; `offset` is None for the next one."""
    key_text, key_base64 = text_and_base64(key)
    value_text, value_base64 = text_and_base64(value)
    return StateRecord(
        partition=partition,
        offset=offset,
        timestamp=iso_of(timestamp_ms) if 0 <= timestamp_ms <= LATEST_MS else timestamp_ms,
        key=key_text,
        key_base64=key_base64,
        value=value_text,
        value_base64=value_base64,
        headers=_headers(headers) if headers else None,
    )


def _headers(headers: Headers) -> object:
    """Return headers as texts by name, or as a list if they have bytes, or names that recur."""
    texts = [(name, *text_and_base64(content)) for name, content in headers]
    if len(dict(headers)) == len(headers) and all(base64 is None for _, _, base64 in texts):
        return {name: text for name, text, _ in texts}
    return [
        to_json(StateHeader(key=name, value=text, value_base64=base64))
        for name, text, base64 in texts
    ]
