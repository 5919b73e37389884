"""An exchange in a few words: whom it is about, and what went wrong.

Found by the names that fields have in all of Kafka's messages, so that an API which is new tells
of itself as the others do.
"""

# ruff: noqa: ANN401 - messages of any API
from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.messages import error_name
from kafkalite.protocol.message import Message
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SHOWN: Final = 3
"""So many names of one kind are shown, and the number of the others."""

_SCALARS: Final[Mapping[str, str]] = {
    "group_id": "group",
    "transactional_id": "transactional-id",
    "member_id": "member",
    "generation_id": "generation",
    "generation_id_or_member_epoch": "generation",
    "member_epoch": "epoch",
    "producer_id": "producer",
    "producer_epoch": "producer-epoch",
    "key": "key",
    "mechanism": "mechanism",
    "client_software_name": "software",
    "client_software_version": "software-version",
}
"""A request's own field → the word that it is shown by."""

_UNSAID: Final = (None, "", -1)
_LISTS: Final[Mapping[str, str]] = {
    "topics": "topics",
    "topic_data": "topics",
    "groups": "groups",
    "group_ids": "groups",
    "groups_names": "groups",
    "coordinator_keys": "keys",
    "transactions": "transactions",
    "resources": "resources",
    "transactional_ids": "transactional-ids",
    "members": "members",
}
"""A request's list → the word that the names in it are shown by."""

_NAMES: Final = (
    "name", "topic", "topic_name", "group_id", "transactional_id", "resource_name", "member_id",
    "topic_id",
)  # fmt: skip
_PARTITIONS: Final = (
    "partitions", "partition_data", "partition_indexes", "partition_responses", "partition",
)  # fmt: skip
_GROUPS: Final = frozenset(("group_id", "group_ids", "groups_names", "coordinator_keys", "key"))
_TOPICS: Final = frozenset(("topic", "topic_name", "name"))
_TOPIC_ID: Final = "topic_id"
_NO_ID: Final = bytes(16)
_NO_NAMES: Final[Mapping[bytes, str]] = MappingProxyType({})


def summary(request: Any, topic_names: Mapping[bytes, str] = _NO_NAMES) -> str:
    """Return whom a request is about, as words of the form what=whom."""
    words = []
    for attribute in request.__slots__:
        value = getattr(request, attribute)
        if attribute in _SCALARS and value not in _UNSAID:
            words.append(f"{_SCALARS[attribute]}={value}")
        elif attribute in _LISTS and isinstance(value, list) and value:
            names = [_name(each, topic_names) for each in value]
            more = f",+{len(names) - _SHOWN}" if len(names) > _SHOWN else ""
            words.append(f"{_LISTS[attribute]}={','.join(names[:_SHOWN])}{more}")
    return " ".join(words)


def _name(item: Any, topic_names: Mapping[bytes, str]) -> str:
    """Return what one thing of a list is called, and of how many partitions it speaks."""
    if not isinstance(item, Message):
        return str(item)
    slots = item.__slots__
    named = (getattr(item, each) for each in _NAMES if each in slots)
    name = next((each for each in named if each), "?")
    if isinstance(name, bytes):
        name = topic_names.get(name) or uuid_to_text(name)
    lists = (getattr(item, each) for each in _PARTITIONS if each in slots)
    parts = next((each for each in lists if isinstance(each, list)), None)
    return f"{name}({len(parts)})" if parts else str(name)


def errors(response: Any) -> list[str]:
    """Return the errors in a response by Kafka's names, each once."""
    codes = dict.fromkeys(
        value for name, value in _walk(response) if name.endswith("error_code") and value
    )
    return [error_name(code) for code in codes]


def groups(request: Any) -> set[str]:
    """Return the groups, and what else coordinators are found for, that a request names."""
    return {value for name, value in _walk(request) if name in _GROUPS and isinstance(value, str)}


def topics(message: Any, topic_names: Mapping[bytes, str] = _NO_NAMES) -> set[str]:
    """Return the topics that a message names, and those of its ids; an id that says nothing too."""
    found = set()
    for name, value in _walk(message):
        if name in _TOPICS and isinstance(value, str) and value:
            found.add(value)
        elif name == _TOPIC_ID and isinstance(value, bytes) and value != _NO_ID:
            found.add(topic_names.get(value) or uuid_to_text(value))
    return found


def named_topics(response: Any) -> Iterator[tuple[bytes, str]]:
    """Yield the topic ids that a response tells the names of, as Metadata does."""
    for row in getattr(response, "topics", None) or ():
        topic_id, name = getattr(row, _TOPIC_ID, None), getattr(row, "name", None)
        if topic_id and name and topic_id != _NO_ID:
            yield topic_id, name


def _walk(message: Any) -> Iterator[tuple[str, Any]]:
    """Yield the scalars of a message by the names of their fields, however deep."""
    for name in message.__slots__:
        value = getattr(message, name)
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, Message):
                yield from _walk(each)
            else:
                yield name, each
