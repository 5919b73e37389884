"""Conditions of `kafkalite consume --where`, such as `key=order-1` or `header.source=test`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.ports.similar_names import similar_names_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.client.records import ConsumerRecord

    Condition = Callable[[ConsumerRecord], bool]

_HEADER: Final = "header."
_FIELDS: Final[Mapping[str, Callable[[ConsumerRecord], bytes | None]]] = {
    "key": lambda record: record.key,
    "value": lambda record: record.value,
    "partition": lambda record: str(record.partition.partition).encode(),
    "offset": lambda record: str(record.offset).encode(),
}


def conditions_of(texts: Sequence[str]) -> list[Condition]:
    """Return the conditions that texts describe; raises ValueError.

    `FIELD=TEXT` requires this text, and `FIELD~TEXT` one that contains it.
    """
    return [_condition(text) for text in texts]


def _condition(text: str) -> Condition:
    position = min((text.find(each) for each in "=~" if each in text), default=0)
    name, operator, expected = text[:position], text[position : position + 1], text[position + 1 :]
    if not name:
        raise ValueError(f"--where {text[:40]!r}: write FIELD=TEXT or FIELD~TEXT")
    content = expected.encode()
    if name.startswith(_HEADER):
        header = name.removeprefix(_HEADER)
        return lambda record: any(
            key == header and _matches(value, operator, content) for key, value in record.headers
        )
    if name not in _FIELDS:
        hint = similar_names_hint(name, _FIELDS)
        raise ValueError(
            f"--where: a record has no field {name[:40]!r}, but {', '.join(_FIELDS)} and "
            f"{_HEADER}NAME{hint}"
        )
    read = _FIELDS[name]
    return lambda record: _matches(read(record), operator, content)


def _matches(content: bytes | None, operator: str, expected: bytes) -> bool:
    if content is None:
        return False
    return expected in content if operator == "~" else content == expected
