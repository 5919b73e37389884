"""Truncation of texts: error messages in responses, and clients' values in log lines.

A string has at most 32,767 bytes of UTF-8. An error message that repeats a client's value can be
longer. Kafka then fails to serialize the response and answers UNKNOWN_SERVER_ERROR without a
message; this broker keeps the error code and truncates the message.
"""

from __future__ import annotations

from kafkalite.protocol.message import Message

MAX_LOGGED_CHARACTERS = 100
"""The maximum length of a client's value in a log line."""

MAX_MESSAGE_CHARACTERS = 8_000
"""The length of a truncated message; a character takes at most four bytes of UTF-8."""

MESSAGE_FIELDS = frozenset((
    "error_message", "batch_index_error_message", "acknowledge_error_message", "status_detail",
))  # fmt: skip
"""The attributes of response structs that hold text for people."""


def truncate_message(message: str | None) -> str | None:
    """Return a message that fits into any string field."""
    if message is None or len(message) <= MAX_MESSAGE_CHARACTERS:
        return message
    return f"{message[: MAX_MESSAGE_CHARACTERS - 1]}…"


def truncate_messages(response: object) -> bool:
    """Truncate every error message inside a response; return whether one was too long."""
    is_changed = False
    remaining = [response]
    while remaining:
        item = remaining.pop()
        if isinstance(item, list):
            remaining += item
        elif isinstance(item, Message):
            for name in item.__slots__:
                value = getattr(item, name)
                if name not in MESSAGE_FIELDS:
                    remaining.append(value)
                elif (message := truncate_message(value)) is not value:
                    setattr(item, name, message)
                    is_changed = True
    return is_changed


def printable(text: str, max_characters: int = MAX_LOGGED_CHARACTERS) -> str:
    """Return a client's value for a log line: escaped, and of at most `max_characters`.

    Characters that are not printable are escaped, because control sequences in a log could control
    the terminal that shows the log.
    """
    shown = text[:max_characters]
    if not shown.isprintable():
        shown = shown.encode("unicode_escape").decode("ascii")
    return shown if len(text) <= max_characters else f"{shown}…"
