"""Time line of a group: members, generations, rebalances with reasons, commits and refusals.

The entries are worded as those of `kafkalite explain`, although only the requests are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.reading.messages import error_name
from kafkalite.coordinator.event_history import Entry
from kafkalite.coordinator.member_clients import MemberClient
from kafkalite.lab.checker.fetched_batches import topic_of
from kafkalite.lab.checker.groups.generations import departures, generations_of
from kafkalite.lab.checker.groups.requests import milliseconds, time_of
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.texts import count_text
from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalite.coordinator.event_history import Fact
    from kafkalite.lab.checker.collecting import Observation
    from kafkalite.lab.checker.groups.generations import Generation, TopicPartition
    from kafkalite.lab.checker.groups.requests import GroupRequests

COMMITTED: Final = "committed"
"""The kind of entries about accepted commits."""

_MAX_PARTITIONS: Final = 8
_MEMBER: Final = "member_id"
_SILENT_INTERVALS: Final = 3
"""Heartbeats that a member has missed when it counts as silent."""
_HEARTBEATS: Final = frozenset(
    (
        int(ApiKey.CONSUMER_GROUP_HEARTBEAT),
        int(ApiKey.SHARE_GROUP_HEARTBEAT),
        int(ApiKey.STREAMS_GROUP_HEARTBEAT),
    )
)
_COMMITS: Final = frozenset((int(ApiKey.OFFSET_COMMIT), int(ApiKey.TXN_OFFSET_COMMIT)))
_FENCED: Final = frozenset(
    (
        int(ErrorCode.FENCED_INSTANCE_ID),
        int(ErrorCode.FENCED_MEMBER_EPOCH),
        int(ErrorCode.INVALID_PRODUCER_EPOCH),
        int(ErrorCode.PRODUCER_FENCED),
    )
)
_EXPECTED: Final = frozenset(
    (int(ErrorCode.NONE), int(ErrorCode.MEMBER_ID_REQUIRED), int(ErrorCode.REBALANCE_IN_PROGRESS))
)
"""Errors that members get in normal operation."""


class _Note(NamedTuple):
    at_ns: int
    kind: str
    text: str
    facts: Mapping[str, Fact] = {}


def timeline(requests: GroupRequests, group: str) -> list[Entry]:
    """Return the entries of a group, oldest first; none if no request names the group."""
    own = requests.of(group)
    notes = [
        *_classic_notes(group, own),
        *_ModernGroup(group, requests.topic_names).notes(own),
        *_commits(own, requests.topic_names),
        *_refusals(own, requests.topic_names),
    ]
    notes.sort(key=lambda note: note.at_ns)
    clients = _clients(own)
    return [
        Entry(
            number=number,
            group=group,
            transactional_id=None,
            topic=None,
            client=None,
            kind=note.kind,
            text=note.text,
            facts=note.facts,
            times=1,
            first_ms=milliseconds(note.at_ns),
            at_ms=milliseconds(note.at_ns),
            members=tuple(each for each in clients if each.member_id in note.text),
        )
        for number, note in enumerate(notes, 1)
    ]


def _clients(requests: Iterable[Observation]) -> list[MemberClient]:
    found: dict[str, MemberClient] = {}
    for each in requests:
        member = member_of(each)
        if member:
            client = each.event.client
            found[member] = MemberClient(member, client.id, client.host)
    return [*found.values()]


def member_of(each: Observation) -> str:
    """Return the member of a request, or the one that the answer names."""
    requested = getattr(each.request, "member_id", "") or ""
    return requested or getattr(each.response, "member_id", "") or ""


# -- classic groups ----------------------------------------------------------------------------


def _classic_notes(group: str, requests: Sequence[Observation]) -> Iterator[_Note]:
    known: set[str] = set()
    for generation in generations_of(requests):
        for member, join in generation.joins.items():
            if member not in known:
                reason = f": {join.request.reason}" if join.request.reason else ""
                text = f"member {member} joined group {group}{reason}"
                yield _Note(join.event.sent_ns, "joined", text, {_MEMBER: member})
        known |= {*generation.members}
        yield from _generation_notes(group, generation)
    for each in departures(requests):
        reason = f": {each.detail}" if each.detail else ""
        text = f"member {each.member} left group {group}{reason}"
        yield _Note(each.at_ns, "left", text, {_MEMBER: each.member})


def _generation_notes(group: str, generation: Generation) -> Iterator[_Note]:
    before = "" if generation.before < 0 else f" leaves generation {generation.before} and"
    reasons = ", ".join(map(str, generation.triggers))
    yield _Note(generation.started_ns, "rebalance", f"group {group}{before} rebalances: {reasons}")
    number = generation.number
    yield _Note(
        generation.begun_ns,
        "generation",
        f"generation {number} of group {group} begins with "
        f"{count_text(len(generation.members), 'member')}, led by {generation.leader}, protocol "
        f"{generation.protocol}",
        {_GENERATION: number, "members": [*generation.members]},
    )
    if generation.assigned_ns is not None:
        parts = "; ".join(
            f"{member}: {_named(each.partitions)}"
            for member, each in sorted(generation.assigned.items())
        )
        text = f"generation {number} of group {group} has its assignment: {parts}"
        yield _Note(generation.assigned_ns, "assigned", text, {_GENERATION: number})


def _named(partitions: Iterable[TopicPartition]) -> str:
    names = [f"{topic}-{number}" for topic, number in sorted(partitions)]
    more = len(names) - _MAX_PARTITIONS
    suffix = f" and {more} more" if more > 0 else ""
    return f"{', '.join(names[:_MAX_PARTITIONS])}{suffix}" if names else "no partition"


# -- groups of the newer protocols -------------------------------------------------------------


class _ModernGroup:
    """What the heartbeats of a consumer, share or streams group show (KIP-848)."""

    def __init__(self, group: str, topic_names: Mapping[bytes, str]) -> None:
        self._group = group
        self._names = topic_names
        self._epoch = -1
        self._latest: dict[str, int] = {}
        """Member → time of its latest request."""
        self._interval_ns = 0
        self._reasons: list[str] = []

    def notes(self, requests: Iterable[Observation]) -> Iterator[_Note]:
        """Yield joins, departures, epochs and assignments."""
        for each in requests:
            if each.api_key not in _HEARTBEATS or each.response is None:
                continue
            if not each.response.error_code:
                yield from self._heartbeat(each)

    def _heartbeat(self, each: Observation) -> Iterator[_Note]:
        request, response, member = each.request, each.response, member_of(each)
        self._interval_ns = max(self._interval_ns, response.heartbeat_interval_ms * 1_000_000)
        if request.member_epoch < 0:
            yield self._left(each, member)
            return
        if member not in self._latest:
            text = f"member {member} joined"
            yield _Note(each.event.sent_ns, "joined", text, {_MEMBER: member})
            self._reasons.append(f"member {member} joined")
        elif request.member_epoch == 0:
            text = f"member {member} rejoined"
            yield _Note(each.event.sent_ns, "joined", text, {_MEMBER: member})
            self._reasons.append(f"member {member} rejoined")
        elif getattr(request, "subscribed_topic_names", None) is not None:
            self._reasons.append(f"member {member} changed its subscription")
        self._latest[member] = each.until_ns or time_of(each)
        if response.member_epoch > self._epoch:
            yield from self._rebalance(each)
        partitions = self._assignment(response)
        if partitions is not None:
            text = f"member {member} has {partitions} at epoch {response.member_epoch}"
            facts: dict[str, Fact] = {_MEMBER: member, "member_epoch": response.member_epoch}
            yield _Note(time_of(each), "assigned", text, facts)

    def _left(self, each: Observation, member: str) -> _Note:
        self._latest.pop(member, None)
        if each.request.member_epoch == _STATIC_LEAVE:
            instance = each.request.instance_id
            text = f"member {member} left temporarily as instance {instance}"
        else:
            self._reasons.append(f"member {member} left")
            text = f"member {member} removed: it left"
        return _Note(each.event.sent_ns, "left", text, {_MEMBER: member})

    def _rebalance(self, each: Observation) -> Iterator[_Note]:
        now_ns, epoch = time_of(each), each.response.member_epoch
        silent_ns = _SILENT_INTERVALS * self._interval_ns
        for member, latest_ns in [*self._latest.items()]:
            if silent_ns and now_ns - latest_ns > silent_ns:
                del self._latest[member]
                reason = f"member {member} sent no heartbeat for {(now_ns - latest_ns) // 10**6} ms"
                yield _Note(each.event.sent_ns, "expired", reason, {_MEMBER: member})
                self._reasons.append(reason)
        reasons = ", ".join(self._reasons) or "no request of a member gives the reason"
        before = "" if self._epoch < 0 else f"{self._epoch} → "
        text = f"group epoch {before}{epoch}: {reasons}"
        yield _Note(each.event.sent_ns, "rebalance", text, {"group_epoch": epoch})
        self._epoch = epoch
        self._reasons.clear()

    def _assignment(self, response: Any) -> str | None:  # noqa: ANN401 - of three APIs
        """Return the partitions or tasks that an answer assigns; None if it changes nothing."""
        if hasattr(response, "active_tasks"):
            if response.active_tasks is None:
                return None
            return _named(
                (task.subtopology_id, number)
                for task in response.active_tasks
                for number in task.partitions
            ).replace("no partition", "no task")
        if response.assignment is None:
            return None
        return _named(
            (self._names.get(row.topic_id, "a topic"), number)
            for row in response.assignment.topic_partitions
            for number in row.partitions
        )


_STATIC_LEAVE: Final = -2
_GENERATION, _EPOCH = "generation", "epoch"


# -- commits and refusals ----------------------------------------------------------------------


class _Run(NamedTuple):
    """Consecutive accepted commits of a member; the label is "generation" or "epoch"."""

    at_ns: int
    member: str
    epoch: int
    label: str
    times: int
    offsets: dict[str, int]


def _commits(requests: Iterable[Observation], names: Mapping[bytes, str]) -> Iterator[_Note]:
    """Yield one note for consecutive accepted commits of a member at an epoch."""
    run: _Run | None = None
    label = _EPOCH
    for each in requests:
        if each.api_key == int(ApiKey.JOIN_GROUP):
            label = _GENERATION
        accepted = dict(_offsets(each, names)) if each.api_key in _COMMITS else {}
        if not accepted:
            continue
        member, epoch = member_of(each), each.request.generation_id_or_member_epoch
        if run is not None and (run.member, run.epoch) == (member, epoch):
            run = _Run(run.at_ns, member, epoch, label, run.times + 1, run.offsets | accepted)
            continue
        if run is not None:
            yield _commit_note(run)
        run = _Run(time_of(each), member, epoch, label, 1, accepted)
    if run is not None:
        yield _commit_note(run)


def _commit_note(run: _Run) -> _Note:
    offsets = ", ".join(f"{name} at {offset}" for name, offset in sorted(run.offsets.items()))
    if run.epoch < 0:
        who = f"member {run.member}" if run.member else "a client that is no member"
        text = f"{who} committed {offsets}"
    else:
        text = f"member {run.member} committed {offsets} at {run.label} {run.epoch}"
    suffix = f", in {run.times} commits" if run.times > 1 else ""
    return _Note(run.at_ns, COMMITTED, f"{text}{suffix}", {_MEMBER: run.member or None})


def _offsets(each: Observation, names: Mapping[bytes, str]) -> Iterator[tuple[str, int]]:
    """Yield the accepted offsets of a commit."""
    for topic, row in accepted_commits(each, names):
        yield f"{topic}-{row.partition_index}", row.committed_offset


def accepted_commits(each: Observation, names: Mapping[bytes, str]) -> Iterator[tuple[str, Any]]:
    """Yield the topics and the rows of accepted offsets; nothing for a request of another API."""
    if each.api_key not in _COMMITS:
        return
    errors = _commit_errors(each)
    for topic in each.request.topics:
        for row in topic.partitions:
            if errors.get((topic_of(topic), row.partition_index)) == int(ErrorCode.NONE):
                yield _topic(topic, names), row


def _commit_errors(each: Observation) -> dict[tuple[Any, int], int]:
    return {
        (topic_of(topic), row.partition_index): row.error_code
        for topic in (() if each.response is None else each.response.topics)
        for row in topic.partitions
    }


def _topic(row: Any, names: Mapping[bytes, str]) -> str:  # noqa: ANN401 - of any version
    topic = topic_of(row)
    return names.get(topic, "a topic") if isinstance(topic, bytes) else topic


def _refusals(requests: Iterable[Observation], names: Mapping[bytes, str]) -> Iterator[_Note]:
    for each in requests:
        if each.response is None:
            continue
        if each.api_key in _COMMITS:
            yield from _refused_commits(each, names)
            continue
        code = each.response.error_code
        if code in _EXPECTED:
            continue
        member = member_of(each) or "a new member"
        number = _epoch_text(each)
        text = f"{codec.api_name(each.api_key)} of {member}{number} refused: {error_name(code)}"
        facts: dict[str, Fact] = {_MEMBER: member_of(each) or None, "error": error_name(code)}
        yield _Note(time_of(each), kind_of_error(code), text, facts)


def _refused_commits(each: Observation, names: Mapping[bytes, str]) -> Iterator[_Note]:
    errors = _commit_errors(each)
    for topic in each.request.topics:
        for row in topic.partitions:
            code = errors.get((topic_of(topic), row.partition_index), 0)
            if code:
                partition = f"{_topic(topic, names)}-{row.partition_index}"
                member = f" by member {member_of(each)}" if member_of(each) else ""
                yield _Note(
                    time_of(each),
                    kind_of_error(code),
                    f"commit of {partition} to offset {row.committed_offset}{member}"
                    f"{_epoch_text(each)} refused: {error_name(code)}",
                    {_MEMBER: member_of(each) or None, "error": error_name(code)},
                )


def _epoch_text(each: Observation) -> str:
    for name, label in (
        ("generation_id", "generation"),
        ("member_epoch", "epoch"),
        ("generation_id_or_member_epoch", "epoch"),
    ):
        value = getattr(each.request, name, -1)
        if value >= 0:
            return f" at {label} {value}"
    return ""


def kind_of_error(code: int) -> str:
    """Return the kind of the event in which a request was refused with an error."""
    return "fenced" if code in _FENCED else "refused"
