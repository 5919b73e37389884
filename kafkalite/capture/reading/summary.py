"""One-line summaries of requests and responses: groups, topics, members, and errors.

Fields are found by their names, which are the same in all Kafka messages. So new APIs need no code
here.
"""

# ruff: noqa: ANN401 - messages of any API
from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.reading.messages import error_name
from kafkalite.protocol.message import Message
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MAX_NAMES: Final = 3
"""Maximum number of names shown per list; the number of the others follows."""

_SCALAR_LABELS: Final[Mapping[str, str]] = {
    "group_id": "group",
    "transactional_id": "transactional-id",
    "member_id": "member",
    "generation_id": "generation",
    "generation_id_or_member_epoch": "generation",
    "member_epoch": "epoch",
    "producer_id": "producer",
    "producer_epoch": "producer-epoch",
    "v3_and_below_transactional_id": "transactional-id",
    "v3_and_below_producer_id": "producer",
    "v3_and_below_producer_epoch": "producer-epoch",
    "committed": "outcome",
    "key": "key",
    "mechanism": "mechanism",
    "client_software_name": "software",
    "client_software_version": "software-version",
}
"""Field of a request → label in the summary."""

_EMPTY_VALUES: Final = (None, "", -1)
_V3_AND_BELOW: Final = "v3_and_below_"
_COMMITTED: Final = "committed"
_OUTCOMES: Final = {True: "commit", False: "abort"}
"""Value of `committed` in EndTxn → its text."""

_ASSIGNED_LABELS: Final[Mapping[str, str]] = {
    "producer_id": "producer",
    "producer_epoch": "producer-epoch",
}
"""Field of a response → label of the value that the broker assigned."""

_LIST_LABELS: Final[Mapping[str, str]] = {
    "topics": "topics",
    "topic_data": "topics",
    "v3_and_below_topics": "topics",
    "groups": "groups",
    "group_ids": "groups",
    "groups_names": "groups",
    "coordinator_keys": "keys",
    "transactions": "transactions",
    "resources": "resources",
    "transactional_ids": "transactional-ids",
    "members": "members",
}
"""List of a request → label in the summary."""

_NAME_FIELDS: Final = (
    "name", "topic", "topic_name", "group_id", "transactional_id", "resource_name", "member_id",
    "topic_id",
)  # fmt: skip
_PARTITION_FIELDS: Final = (
    "partitions", "partition_data", "partition_indexes", "partition_responses", "partition",
)  # fmt: skip
_GROUP_FIELDS: Final = frozenset(
    ("group_id", "group_ids", "groups_names", "coordinator_keys", "key")
)
_TOPIC_FIELDS: Final = frozenset(("topic", "topic_name", "name"))
_TOPIC_ID: Final = "topic_id"
_NO_ID: Final = bytes(16)
_NO_NAMES: Final[Mapping[bytes, str]] = MappingProxyType({})


def summary(request: Any, topic_names: Mapping[bytes, str] = _NO_NAMES) -> str:
    """Return a summary of a request: label=value pairs, separated by spaces."""
    labels = []
    for attribute in request.__slots__:
        if attribute.startswith(_V3_AND_BELOW) and not request.v3_and_below_transactional_id:
            continue  # later versions of AddPartitionsToTxn have a list of transactions
        value = getattr(request, attribute)
        if attribute in _SCALAR_LABELS and value not in _EMPTY_VALUES:
            text = _OUTCOMES[value] if attribute == _COMMITTED else value
            labels.append(f"{_SCALAR_LABELS[attribute]}={text}")
        elif attribute in _LIST_LABELS and isinstance(value, list) and value:
            names = [_name(each, topic_names) for each in value]
            more = f",+{len(names) - _MAX_NAMES}" if len(names) > _MAX_NAMES else ""
            labels.append(f"{_LIST_LABELS[attribute]}={','.join(names[:_MAX_NAMES])}{more}")
    return " ".join(labels)


def assigned(response: Any) -> str:
    """Return the producer id and epoch that a response assigns, as label=value pairs."""
    return " ".join(
        f"{label}={value}"
        for name, label in _ASSIGNED_LABELS.items()
        if (value := getattr(response, name, -1)) not in _EMPTY_VALUES
    )


def _name(item: Any, topic_names: Mapping[bytes, str]) -> str:
    """Return the name of a list element, with the number of its partitions."""
    if not isinstance(item, Message):
        return str(item)
    slots = item.__slots__
    named = (getattr(item, each) for each in _NAME_FIELDS if each in slots)
    name = next((each for each in named if each), "?")
    if isinstance(name, bytes):
        name = topic_names.get(name) or uuid_to_text(name)
    lists = (getattr(item, each) for each in _PARTITION_FIELDS if each in slots)
    parts = next((each for each in lists if isinstance(each, list)), None)
    return f"{name}({len(parts)})" if parts else str(name)


def errors(response: Any) -> list[str]:
    """Return the names of the errors in a response, each once."""
    codes = dict.fromkeys(
        value for name, value in scalar_fields(response) if name.endswith("error_code") and value
    )
    return [error_name(code) for code in codes]


def groups(request: Any) -> set[str]:
    """Return the group ids and coordinator keys in a request."""
    return {
        value
        for name, value in scalar_fields(request)
        if name in _GROUP_FIELDS and isinstance(value, str)
    }


def topics(message: Any, topic_names: Mapping[bytes, str] = _NO_NAMES) -> set[str]:
    """Return the topics in a message by name; an unknown topic id is returned as text."""
    names = set()
    for name, value in scalar_fields(message):
        if name in _TOPIC_FIELDS and isinstance(value, str) and value:
            names.add(value)
        elif name == _TOPIC_ID and isinstance(value, bytes) and value != _NO_ID:
            names.add(topic_names.get(value) or uuid_to_text(value))
    return names


def named_topics(response: Any) -> Iterator[tuple[bytes, str]]:
    """Yield topic ids with their names, from a response such as Metadata's."""
    for row in getattr(response, "topics", None) or ():
        topic_id, name = getattr(row, _TOPIC_ID, None), getattr(row, "name", None)
        if topic_id and name and topic_id != _NO_ID:
            yield topic_id, name


def scalar_fields(message: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a message's scalar fields, at any depth."""
    for name in message.__slots__:
        value = getattr(message, name)
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, Message):
                yield from scalar_fields(each)
            else:
                yield name, each
