"""True errors: what must be so in the broker for an injected error to be true, by error code.

A fault with one of these errors makes it true first. So a member that gets UNKNOWN_MEMBER_ID has
been expelled, and its next request is answered as after an error that Kafka itself returns. A code
that is not in the table claims nothing that lasts, or nothing that a fault could change: its error
is the answer only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.cluster import incidents
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import AnsweringNode, entities_in_request, row
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.fault_selection import Selection

_COORDINATORS: Final = {
    AnsweringNode.GROUP_COORDINATOR: ("group", Entity.GROUP),
    AnsweringNode.TRANSACTION_COORDINATOR: ("transactional_id", Entity.TRANSACTIONAL_ID),
}


class Refused(NamedTuple):
    """A request that a fault refuses, or some of its rows."""

    key: ApiKey
    call: Call
    request: Any
    selection: Selection
    cause: str
    """The fault, such as "fault f1"."""

    @property
    def cluster(self) -> Cluster:
        """The cluster that received the request."""
        return self.call.node.cluster

    def members(self) -> Iterator[tuple[str, str]]:
        """Yield each group and member that the request names as its sender."""
        sender = getattr(self.request, "member_id", "")
        found = [sender] if sender else entities_in_request(self.key, Entity.MEMBER, self.request)
        member_ids = [each for each in dict.fromkeys(found) if each]
        for group_id in self.selection.names("group", self.request):
            for member_id in member_ids:
                yield group_id, member_id

    def partitions(self) -> list[tuple[str, int]]:
        """Return the names of topics and the indexes of the partitions that are refused."""
        return self.selection.partitions(self.call, self.request)


class TrueError(NamedTuple):
    """An error that a fault makes true."""

    state: str
    """What is so afterwards, as a sentence."""
    establish: Callable[[Refused], None]
    """Makes it so if the request names what must change, and if that exists."""


def _expel(refused: Refused) -> None:
    for group_id, member_id in refused.members():
        incidents.expel(refused.cluster, group_id, (member_id,), refused.cause)


def _raise_epoch(refused: Refused) -> None:
    _raise_epochs(refused, keeps_previous=False)


def _raise_epoch_once(refused: Refused) -> None:
    _raise_epochs(refused, keeps_previous=True)


def _raise_epochs(refused: Refused, *, keeps_previous: bool) -> None:
    for group_id, member_id in refused.members():
        incidents.raise_epoch(
            refused.cluster, group_id, member_id, refused.cause, keeps_previous=keeps_previous
        )


def _begin_rebalance(refused: Refused) -> None:
    for group_id in refused.selection.names("group", refused.request):
        incidents.begin_rebalance(refused.cluster, group_id, refused.cause)


def _replace_instance(refused: Refused) -> None:
    instance_ids = dict.fromkeys(entities_in_request(refused.key, Entity.INSTANCE, refused.request))
    for group_id in refused.selection.names("group", refused.request):
        for instance_id in filter(None, instance_ids):
            incidents.replace_instance(refused.cluster, group_id, instance_id, refused.cause)


def _fence(refused: Refused) -> None:
    for transactional_id in refused.selection.names("transactional_id", refused.request):
        incidents.fence(refused.cluster, transactional_id, refused.cause)


def _move_coordinator(refused: Refused) -> None:
    for kind, name in _coordinated(refused):
        incidents.move_coordinator(refused.cluster, kind, name, refused.cause)


def _reload_coordinator(refused: Refused) -> None:
    for kind, name in _coordinated(refused):
        incidents.reload_coordinator(refused.cluster, kind, name, refused.cause)


def _coordinated(refused: Refused) -> Iterator[tuple[Entity, str]]:
    """Yield the groups or transactional ids whose coordinator answers the request."""
    coordinator = _COORDINATORS.get(row(refused.key).node)
    if coordinator is not None:
        field, kind = coordinator
        for name in refused.selection.names(field, refused.request):
            yield kind, name


def _move_leader(refused: Refused) -> None:
    if row(refused.key).node is AnsweringNode.PARTITION_LEADER:
        for topic, index in refused.partitions():
            incidents.move_leader(refused.cluster, topic, index, refused.cause)


def _replace_topic(refused: Refused) -> None:
    for topic in dict.fromkeys(topic for topic, _ in refused.partitions()):
        incidents.replace_topic(refused.cluster, topic, refused.cause)


def _delete_records(refused: Refused) -> None:
    if refused.key is not ApiKey.FETCH:
        return
    offsets = _fetch_offsets(refused.call, refused.request)
    for topic, index in refused.partitions():
        if (topic, index) in offsets:
            offset = offsets[topic, index]
            incidents.delete_records(refused.cluster, topic, index, offset, refused.cause)


def _fetch_offsets(call: Call, request: Any) -> dict[tuple[str, int], int]:  # noqa: ANN401 - a Fetch
    """Return the position in each partition of a fetch, also of those in its session."""
    names = call.node.image.topics_by_id
    sessions = call.node.partitions.fetch_sessions(call.node.id)
    named = [
        (topic.topic or topic.topic_id, each.partition, each.fetch_offset)
        for topic in request.topics
        for each in topic.partitions
    ]
    return {
        (topic if isinstance(topic, str) else names[topic].name, index): offset
        for topic, index, offset in (*sessions.offsets_of(request.session_id), *named)
        if isinstance(topic, str) or topic in names
    }


TRUE_ERRORS: Final[Mapping[ErrorCode, TrueError]] = {
    ErrorCode.UNKNOWN_MEMBER_ID: TrueError(
        "The member is removed from its group, which rebalances.", _expel
    ),
    ErrorCode.ILLEGAL_GENERATION: TrueError(
        "The group has a later generation and rebalances.", _raise_epoch
    ),
    ErrorCode.FENCED_MEMBER_EPOCH: TrueError(
        "The member has a later epoch, and its own is not the previous one.",
        _raise_epoch,
    ),
    ErrorCode.STALE_MEMBER_EPOCH: TrueError(
        "The member has a later epoch, and its partitions were assigned again.",
        _raise_epoch_once,
    ),
    ErrorCode.REBALANCE_IN_PROGRESS: TrueError("The group rebalances.", _begin_rebalance),
    ErrorCode.FENCED_INSTANCE_ID: TrueError(
        "Another member has the instance id.", _replace_instance
    ),
    ErrorCode.PRODUCER_FENCED: TrueError(
        "The transactional id has a later epoch; an open transaction is aborted.",
        _fence,
    ),
    ErrorCode.INVALID_PRODUCER_EPOCH: TrueError(
        "The transactional id has a later epoch; an open transaction is aborted.",
        _fence,
    ),
    ErrorCode.NOT_COORDINATOR: TrueError("Another node is the coordinator.", _move_coordinator),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: TrueError(
        "The coordinator has been loaded again from its log.",
        _reload_coordinator,
    ),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: TrueError(
        "Another replica in sync leads the partition.", _move_leader
    ),
    ErrorCode.UNKNOWN_TOPIC_ID: TrueError(
        "The topic was deleted, and created again with another id and without records.",
        _replace_topic,
    ),
    ErrorCode.OFFSET_OUT_OF_RANGE: TrueError(
        "The records up to the fetched offset are deleted.",
        _delete_records,
    ),
}
"""Code → what is so when the error is true, and how a fault makes it so."""

HANDLED_DESPITE: Final = {ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: frozenset((ApiKey.PRODUCE,))}
"""Code → APIs whose requests are handled before they get this error: it says that."""


def make_true(code: ErrorCode, refused: Refused) -> None:
    """Make the error of a request true, as far as the request names what must change.

    What a log or a state machine refuses to change stays as it is.
    """
    row_of_code = TRUE_ERRORS.get(code)
    if row_of_code is not None:
        try:
            row_of_code.establish(refused)
        except (KafkaError, OSError):
            return


def names_leader(code: ErrorCode, refused: Refused) -> bool:
    """Return whether the broker answers a request with a true error, and names the new leaders.

    That is so for a Produce whose refused partitions have moved to another node (KIP-951).
    """
    if code is not ErrorCode.NOT_LEADER_OR_FOLLOWER or refused.key is not ApiKey.PRODUCE:
        return False
    node = refused.call.node
    found = [node.image.partition(*each) for each in refused.partitions()]
    return bool(found) and all(each is not None and each.leader != node.id for each in found)
