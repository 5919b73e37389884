"""Values of the functions in conditions: where they are stored, and how they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafkalite.control.group_reader import epoch_and_members
from kafkalite.control.group_status import DEAD
from kafkalite.control.time_travel.points import TimeTravelError
from kafkalite.control.time_travel.replay import commit_needle, needle_of
from kafkalite.metadata.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.shares.state import ShareKey
from kafkalite.transactions.state import TransactionState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.control.time_travel.conditions import Call
    from kafkalite.metadata.image import MetadataImage, PartitionImage, TopicImage
    from kafkalite.transactions.state import Transaction

Value: TypeAlias = int | str | None

_OF_GROUPS: Final = frozenset(("members", "epoch", "state"))
_OF_TRANSACTIONS: Final = frozenset(("transaction", "producer_epoch"))
_OF_METADATA: Final = frozenset(("partitions", "leader", "leader_epoch"))


def log_of(call: Call, image: MetadataImage) -> tuple[str, int | str, bytes | None]:
    """Return the topic of a value, its partition or the key of that, and bytes in its keys.

    Raises TimeTravelError for a topic that does not exist.
    """
    name = call.names[0]
    if call.function == "committed":
        return OFFSETS_TOPIC, name, commit_needle(name, call.names[1], call.partition)
    if call.function in _OF_GROUPS:
        return OFFSETS_TOPIC, name, needle_of(name)
    if call.function in _OF_TRANSACTIONS:
        return TRANSACTION_STATE_TOPIC, name, needle_of(name)
    if call.function in _OF_METADATA:
        return METADATA_TOPIC, 0, None
    if call.function == "share_start":
        return SHARE_STATE_TOPIC, _share_key(call, image).text, needle_of(name)
    partitions = _topic(name, image).partitions
    if call.partition >= len(partitions):
        raise TimeTravelError(
            f"the topic {name!r} has no partition {call.partition}, but 0 to {len(partitions) - 1}"
        )
    return name, call.partition, None


def _topic(name: str, image: MetadataImage) -> TopicImage:
    found = image.topics.get(name)
    if found is None:
        raise TimeTravelError(f"there is no topic {name[:249]!r}")
    return found


def _share_key(call: Call, image: MetadataImage) -> ShareKey:
    group_id, topic = call.names
    return ShareKey(group_id, _topic(topic, image).topic_id, call.partition)


def read_value(call: Call, machine: Any, image: MetadataImage) -> Value:  # noqa: ANN401 - any machine
    """Return the value of a function, from the machine of its log; None without one."""
    return _READERS[call.function](call, machine, image)


def _committed(call: Call, machine: Any, _: MetadataImage) -> Value:  # noqa: ANN401 - as above
    group_id, topic = call.names
    found = machine.offsets.of_group(group_id).get(topic, {}).get(call.partition)
    return None if found is None else int(found.offset)


def _epoch(call: Call, machine: Any, _: MetadataImage) -> Value:  # noqa: ANN401 - as above
    machine.on_loaded(0)
    group = machine.group(call.names[0])
    return None if group is None else epoch_and_members(group)[0]


def _members(call: Call, machine: Any, _: MetadataImage) -> Value:  # noqa: ANN401 - as above
    machine.on_loaded(0)
    group = machine.group(call.names[0])
    return 0 if group is None else epoch_and_members(group)[1]


def _state(call: Call, machine: Any, _: MetadataImage) -> Value:  # noqa: ANN401 - as above
    machine.on_loaded(0)
    group = machine.group(call.names[0])
    return DEAD if group is None else str(group.state_name())


def _transaction_of(call: Call, machine: Any) -> Transaction | None:  # noqa: ANN401 - as above
    return next(
        (each for each in machine.transactions() if each.transactional_id == call.names[0]), None
    )


def _transaction(call: Call, machine: Any, _: MetadataImage) -> Value:  # noqa: ANN401 - as above
    found = _transaction_of(call, machine)
    return TransactionState.DEAD.label if found is None else found.state.label


def _producer_epoch(call: Call, machine: Any, _: MetadataImage) -> Value:  # noqa: ANN401 - as above
    found = _transaction_of(call, machine)
    return None if found is None else found.producer_epoch


def _share_start(call: Call, machine: Any, image: MetadataImage) -> Value:  # noqa: ANN401 - as above
    found = machine.state(_share_key(call, image))
    return None if found is None else int(found.start_offset)


def _end_offset(_call: Call, machine: Any, _: MetadataImage) -> Value:  # noqa: ANN401 - as above
    return int(machine.end_offset)


def _partitions_of(call: Call, machine: Any) -> Mapping[int, PartitionImage] | None:  # noqa: ANN401 - as above
    topic = machine.topics.by_name.get(call.names[0])
    partitions: Mapping[int, PartitionImage] | None = None if topic is None else topic.partitions
    return partitions


def _partitions(call: Call, machine: Any, _: MetadataImage) -> Value:  # noqa: ANN401 - as above
    found = _partitions_of(call, machine)
    return None if found is None else len(found)


def _leader(call: Call, machine: Any, _: MetadataImage) -> Value:  # noqa: ANN401 - as above
    known = _partitions_of(call, machine) or {}
    return known[call.partition].leader if call.partition in known else None


def _leader_epoch(call: Call, machine: Any, _: MetadataImage) -> Value:  # noqa: ANN401 - as above
    known = _partitions_of(call, machine) or {}
    return known[call.partition].leader_epoch if call.partition in known else None


_READERS: Final[Mapping[str, Callable[[Call, Any, MetadataImage], Value]]] = {
    "committed": _committed,
    "members": _members,
    "epoch": _epoch,
    "state": _state,
    "transaction": _transaction,
    "producer_epoch": _producer_epoch,
    "share_start": _share_start,
    "end_offset": _end_offset,
    "partitions": _partitions,
    "leader": _leader,
    "leader_epoch": _leader_epoch,
}
