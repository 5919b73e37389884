"""Message, the base class of all messages: equality by value, and a readable repr; copies.

Message classes are plain slotted classes, because a codec creates an instance without `__init__`
and fills its slots one by one: this is three times as fast as any `__init__`.
"""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, Final

from kafkalite.ports.turns import PausingList, pausing

NEW: Final[Any] = object()
"""Default of parameters whose real default is created for each message: `[]` or a struct."""


class Message:
    """A request, a response, a record, or a struct inside one."""

    __slots__: tuple[str, ...] = ()
    unknown_tags: dict[int, bytes] | None
    __hash__: ClassVar[None]  # type: ignore[assignment]  # mutable, so never a key

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        shown = (
            f"{name}={getattr(self, name)!r}"
            for name in self.__slots__
            if name != "unknown_tags" or self.unknown_tags
        )
        return f"{type(self).__qualname__}({', '.join(shown)})"


def copy_views(message: Message) -> None:
    """Replace views of the receive buffer, which are the records of a Produce request, by copies.

    All connections share the buffer, so a Produce that waits needs copies.
    """
    pending: list[object] = [message]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, Message):
            for name in part.__slots__:
                value = getattr(part, name)
                if isinstance(value, memoryview):
                    setattr(part, name, bytes(value))
                elif isinstance(value, list | Message):
                    pending.append(value)


def with_fields(message: Any, **fields: object) -> Any:  # noqa: ANN401 - any message
    """Return a copy of a message with other values of some fields.

    A list that replaces one that pauses also pauses.
    """
    changed = copy(message)
    for name, value in fields.items():
        pauses = value.__class__ is list and getattr(message, name).__class__ is PausingList
        setattr(changed, name, pausing(value) if pauses else value)  # type: ignore[arg-type]
    return changed
