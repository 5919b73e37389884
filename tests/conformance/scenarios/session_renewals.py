"""Which requests renew the session of a member, as `RENEWALS` has them.

In each case a member is silent for a while, then sends one request, and is silent again. The case
ends between the end of the first session and that of a renewed one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kafkalite.groups.session_rules import MemberKind
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.share_group_describe import ShareGroupDescribeRequest
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance import transactional_producer
from tests.conformance.scenarios import consumer_groups, share_groups, streams_groups
from tests.conformance.scenarios.classic_groups import Classic
from tests.conformance.scenarios.commits import commit, fetch
from tests.conformance.scenarios.configs import GROUP, SET, alter, settled
from tests.conformance.setup import create_topic, wait_for_group_coordinator
from tests.conformance.transactional_producer import Producer

if TYPE_CHECKING:
    from typing import Any

    from tests.conformance.world import World

Pause: TypeAlias = Callable[[float], object]
"""Lets seconds pass."""
Life: TypeAlias = "Callable[[World], Iterator[Any]]"
"""Yields the member id before the request, and the error code after it."""

SESSION_MS: Final = 3_000
_SILENCE_S: Final = 1.8
"""Time before the request, and after it: two silences are longer than a session, one is not."""
_REBALANCE_MS: Final = 20_000
_JOIN, _NAMELESS_JOIN, _SYNC, _HEARTBEAT = 9, 3, 5, 4


class Case(NamedTuple):
    """A request, the error code of its response, and whether it renews the session."""

    kind: MemberKind
    api: ApiKey
    code: ErrorCode
    renews: bool
    live: Life


def _join(world: World, group: Classic, member: str = "", on: str = "main", **fields: Any) -> Any:  # noqa: ANN401
    """Send a JoinGroup that is not answered yet."""
    request = group.join(
        member, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=_REBALANCE_MS, **fields
    )
    world.send(request, _JOIN if member or fields else _NAMELESS_JOIN, on)


def _answer(world: World, on: str = "main") -> Any:  # noqa: ANN401 - any response class
    return world.connection(on).receive()


def _stable(world: World, **fields: Any) -> tuple[Classic, str, int]:  # noqa: ANN401
    """Make a group with one member, its leader; returns group, member id and generation."""
    create_topic(world, f"{world.name}-topic")
    wait_for_group_coordinator(world, world.name)
    group = Classic(world.name, f"{world.name}-topic")
    _join(world, group, **fields)
    joined = _answer(world)
    member, generation = joined.member_id, joined.generation_id
    world.probe(group.sync(member, generation, member, instance=fields.get("instance")), _SYNC)
    return group, member, generation


def _wait_for(world: World, group: Classic, state: str) -> None:
    world.call_until(
        DescribeGroupsRequest(groups=[group.group]),
        5,
        lambda found: found.groups[0].group_state == state,
        is_recorded=False,
    )


def _rebalance(world: World, group: Classic) -> None:
    """Let another member join, so that the group waits for its members."""
    _join(world, group, on="another")
    _wait_for(world, group, "PreparingRebalance")


def _pair(world: World) -> tuple[Classic, str, str, int]:
    """Make a group of a leader and another member, which have not sent SyncGroup."""
    group, leader, _ = _stable(world)
    _rebalance(world, group)
    _join(world, group, leader)
    joined = _answer(world)
    other = _answer(world, "another").member_id
    return group, leader, other, joined.generation_id


def heartbeat(world: World) -> Iterator[Any]:
    group, member, generation = _stable(world)
    yield member
    yield world.probe(group.heartbeat(member, generation), _HEARTBEAT).error_code


def heartbeat_in_a_rebalance(world: World) -> Iterator[Any]:
    group, member, generation = _stable(world)
    yield member
    _rebalance(world, group)
    yield world.probe(group.heartbeat(member, generation), _HEARTBEAT).error_code


def heartbeat_of_an_old_generation(world: World) -> Iterator[Any]:
    group, member, generation = _stable(world)
    yield member
    yield world.probe(group.heartbeat(member, generation - 1), _HEARTBEAT).error_code


def heartbeat_of_a_fenced_member(world: World) -> Iterator[Any]:
    group, member, generation = _stable(world, instance="one")
    yield member
    yield world.probe(group.heartbeat("old", generation, "one"), _HEARTBEAT).error_code


def sync_of_a_stable_member(world: World) -> Iterator[Any]:
    group, member, generation = _stable(world)
    yield member
    yield world.probe(group.sync(member, generation, member), _SYNC).error_code


def sync_that_waits_for_the_leader(world: World) -> Iterator[Any]:
    group, leader, other, generation = _pair(world)
    world.send(group.sync(other, generation), _SYNC, "another")
    yield other
    world.probe(group.sync(leader, generation, leader, other), _SYNC)
    yield _answer(world, "another").error_code


def sync_that_a_rebalance_ends(world: World) -> Iterator[Any]:
    group, _leader, other, generation = _pair(world)
    world.send(group.sync(other, generation), _SYNC, "another")
    yield other
    _join(world, group, on="third")
    yield _answer(world, "another").error_code


def sync_in_a_rebalance(world: World) -> Iterator[Any]:
    group, member, generation = _stable(world)
    yield member
    _rebalance(world, group)
    yield world.probe(group.sync(member, generation, member), _SYNC).error_code


def sync_of_an_old_generation(world: World) -> Iterator[Any]:
    group, member, generation = _stable(world)
    yield member
    yield world.probe(group.sync(member, generation - 1, member), _SYNC).error_code


def join_that_begins_a_generation(world: World) -> Iterator[Any]:
    group, member, _generation = _stable(world)
    yield member
    _join(world, group, member)
    yield _answer(world).error_code


def join_that_repeats_a_generation(world: World) -> Iterator[Any]:
    group, leader, other, generation = _pair(world)
    world.send(group.sync(other, generation), _SYNC, "another")
    world.probe(group.sync(leader, generation, leader, other), _SYNC)
    _answer(world, "another")
    yield other
    _join(world, group, other, "another")
    yield _answer(world, "another").error_code


def join_with_another_protocol(world: World) -> Iterator[Any]:
    group, member, _generation = _stable(world)
    yield member
    _join(world, group, member, kind="connect")
    yield _answer(world).error_code


def _committed(
    world: World, member: str, generation: int, *, topic: str = "", metadata: str = "note"
) -> int:
    request = commit(
        world.name,
        topic or f"{world.name}-topic",
        0,
        member_id=member,
        epoch=generation,
        metadata=metadata,
    )
    return int(world.probe(request, 8).topics[0].partitions[0].error_code)


def commit_of_a_stable_member(world: World) -> Iterator[Any]:
    _group, member, generation = _stable(world)
    yield member
    yield _committed(world, member, generation)


def commit_in_a_rebalance(world: World) -> Iterator[Any]:
    group, member, generation = _stable(world)
    yield member
    _rebalance(world, group)
    yield _committed(world, member, generation)


def commit_before_the_assignment(world: World) -> Iterator[Any]:
    group, _leader, other, generation = _pair(world)
    del group
    yield other
    yield _committed(world, other, generation)


def commit_of_an_old_generation(world: World) -> Iterator[Any]:
    _group, member, generation = _stable(world)
    yield member
    yield _committed(world, member, generation - 1)


def commit_with_long_metadata(world: World) -> Iterator[Any]:
    _group, member, generation = _stable(world)
    yield member
    yield _committed(world, member, generation, metadata="m" * 5_000)


def commit_of_an_unknown_topic(world: World) -> Iterator[Any]:
    _group, member, generation = _stable(world)
    yield member
    yield _committed(world, member, generation, topic=f"{world.name}-missing")


def commit_in_a_transaction(world: World) -> Iterator[Any]:
    _group, member, generation = _stable(world)
    name = world.name
    transactional_producer.wait_for_transaction_coordinator(world, name)
    init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    found = world.call_until(
        init, 4, lambda answer: answer.error_code == ErrorCode.NONE, is_recorded=False
    )
    producer = Producer(found.producer_id, found.producer_epoch)
    world.call_until(
        transactional_producer.add_offsets(name, producer, name),
        3,
        lambda answer: answer.error_code == ErrorCode.NONE,
        is_recorded=False,
    )
    # The preparations may have taken long.
    world.probe(Classic(name).heartbeat(member, generation), _HEARTBEAT)
    yield member
    request = transactional_producer.commit_offsets(
        name, producer, name, {f"{name}-topic": {0: 1}}, member_id=member, generation=generation
    )
    yield world.probe(request, 3).topics[0].partitions[0].error_code


def fetch_of_offsets(world: World) -> Iterator[Any]:
    _group, member, _generation = _stable(world)
    yield member
    yield world.probe(fetch(world.name, f"{world.name}-topic", 0), 7).error_code


def _upgraded(world: World) -> tuple[consumer_groups.Consumers, Classic, str, int]:
    """Make a consumer group with a member of each protocol; returns the classic one as well."""
    consumers = consumer_groups.new_group(world)
    _companion(world, consumers)
    group = Classic(consumers.group, consumers.topic)
    _join(world, group)
    joined = _answer(world)
    member, generation = joined.member_id, joined.generation_id
    world.probe(group.sync(member, generation), _SYNC)
    return consumers, group, member, generation


def _companion(world: World, consumers: consumer_groups.Consumers) -> None:
    """Add a member of the consumer protocol, or renew its session; it gets no partitions."""
    world.probe(consumers.join("companion", subscribed_topic_names=[f"{world.name}-other"]), 1)


def heartbeat_in_a_consumer_group(world: World) -> Iterator[Any]:
    consumers, group, member, generation = _upgraded(world)
    yield member
    _companion(world, consumers)
    yield world.probe(group.heartbeat(member, generation), _HEARTBEAT).error_code


def heartbeat_in_a_mixed_rebalance(world: World) -> Iterator[Any]:
    consumers, group, member, generation = _upgraded(world)
    yield member
    _companion(world, consumers)
    world.probe(consumers.join("other"), 1)
    yield world.probe(group.heartbeat(member, generation), _HEARTBEAT).error_code


def sync_in_a_consumer_group(world: World) -> Iterator[Any]:
    consumers, group, member, generation = _upgraded(world)
    yield member
    _companion(world, consumers)
    yield world.probe(group.sync(member, generation), _SYNC).error_code


def join_in_a_consumer_group(world: World) -> Iterator[Any]:
    consumers, group, member, _generation = _upgraded(world)
    yield member
    _companion(world, consumers)
    _join(world, group, member)
    yield _answer(world).error_code


def commit_in_a_consumer_group(world: World) -> Iterator[Any]:
    consumers, _group, member, generation = _upgraded(world)
    yield member
    _companion(world, consumers)
    yield _committed(world, member, generation)


def _shorten_sessions(world: World, kind: str) -> None:
    """Set the session timeout of the group."""
    key = f"{kind}.session.timeout.ms"
    world.probe(alter(GROUP, world.name, (key, SET, str(SESSION_MS))), 1)
    settled(world, key, str(SESSION_MS), kind=GROUP)


def _consumer(world: World) -> tuple[consumer_groups.Consumers, int]:
    consumers = consumer_groups.new_group(world)
    _shorten_sessions(world, "consumer")
    return consumers, world.probe(consumers.join("member"), 1).member_epoch


def heartbeat_with_an_epoch(world: World) -> Iterator[Any]:
    consumers, epoch = _consumer(world)
    yield "member"
    yield world.probe(consumers.heartbeat("member", epoch), 1).error_code


def heartbeat_with_a_wrong_epoch(world: World) -> Iterator[Any]:
    consumers, epoch = _consumer(world)
    yield "member"
    yield world.probe(consumers.heartbeat("member", epoch + 7), 1).error_code


def commit_with_an_epoch(world: World) -> Iterator[Any]:
    consumers, epoch = _consumer(world)
    yield "member"
    request = commit(consumers.group, consumers.topic, 0, member_id="member", epoch=epoch)
    yield world.probe(request, 9).topics[0].partitions[0].error_code


def fetch_of_offsets_with_an_epoch(world: World) -> Iterator[Any]:
    consumers, epoch = _consumer(world)
    yield "member"
    request = fetch(consumers.group, consumers.topic, 0, member_id="member", epoch=epoch)
    yield world.probe(request, 9).groups[0].error_code


def _streams(world: World) -> tuple[streams_groups.Streams, int]:
    streams = streams_groups.new_group(world)
    _shorten_sessions(world, "streams")
    return streams, world.probe(streams.join("member"), 0).member_epoch


def streams_heartbeat(world: World) -> Iterator[Any]:
    streams, epoch = _streams(world)
    yield "member"
    yield world.probe(streams.heartbeat("member", epoch), 0).error_code


def streams_heartbeat_at_a_wrong_epoch(world: World) -> Iterator[Any]:
    streams, epoch = _streams(world)
    yield "member"
    yield world.probe(streams.heartbeat("member", epoch + 7), 0).error_code


def _sharer(world: World) -> tuple[share_groups.Sharers, int]:
    topic = f"{world.name}-topic"
    topic_id = create_topic(world, topic)
    wait_for_group_coordinator(world, world.name)
    sharers = share_groups.Sharers(world.name, topic, topic_id)
    _shorten_sessions(world, "share")
    return sharers, world.probe(sharers.join("member"), 1).member_epoch


def share_heartbeat(world: World) -> Iterator[Any]:
    sharers, epoch = _sharer(world)
    yield "member"
    yield world.probe(sharers.beat("member", epoch), 1).error_code


def share_heartbeat_at_a_wrong_epoch(world: World) -> Iterator[Any]:
    sharers, epoch = _sharer(world)
    yield "member"
    yield world.probe(sharers.beat("member", epoch + 7), 1).error_code


_DESCRIPTIONS: Final[dict[MemberKind, Callable[[World], Any]]] = {
    MemberKind.CLASSIC: lambda world: world.probe(DescribeGroupsRequest(groups=[world.name]), 5),
    MemberKind.UPGRADED: lambda world: world.probe(
        ConsumerGroupDescribeRequest(group_ids=[world.name]), 1
    ),
    MemberKind.CONSUMER: lambda world: world.probe(
        ConsumerGroupDescribeRequest(group_ids=[world.name]), 1
    ),
    MemberKind.STREAMS: lambda world: world.probe(
        StreamsGroupDescribeRequest(group_ids=[world.name]), 0
    ),
    MemberKind.SHARE: lambda world: world.probe(
        ShareGroupDescribeRequest(group_ids=[world.name]), 1
    ),
}


def outcome(case: Case, world: World, pause: Pause) -> tuple[ErrorCode, bool]:
    """Run a case; returns the error code of the request, and whether it renewed the session."""
    life = case.live(world)
    member = next(life)
    pause(_SILENCE_S)
    code = ErrorCode(next(life))
    pause(_SILENCE_S)
    members = _DESCRIPTIONS[case.kind](world).groups[0].members
    return code, member in {each.member_id for each in members}


_E = ErrorCode
_FENCED = ErrorCode.FENCED_MEMBER_EPOCH
_C, _U, _K, _T, _H = (
    MemberKind.CLASSIC,
    MemberKind.UPGRADED,
    MemberKind.CONSUMER,
    MemberKind.STREAMS,
    MemberKind.SHARE,
)
_A = ApiKey
CASES: Final = (
    Case(_C, _A.HEARTBEAT, _E.NONE, True, heartbeat),
    Case(_C, _A.HEARTBEAT, _E.REBALANCE_IN_PROGRESS, True, heartbeat_in_a_rebalance),
    Case(_C, _A.HEARTBEAT, _E.ILLEGAL_GENERATION, False, heartbeat_of_an_old_generation),
    Case(_C, _A.HEARTBEAT, _E.FENCED_INSTANCE_ID, False, heartbeat_of_a_fenced_member),
    Case(_C, _A.SYNC_GROUP, _E.NONE, False, sync_of_a_stable_member),
    Case(_C, _A.SYNC_GROUP, _E.NONE, True, sync_that_waits_for_the_leader),
    Case(_C, _A.SYNC_GROUP, _E.REBALANCE_IN_PROGRESS, True, sync_that_a_rebalance_ends),
    Case(_C, _A.SYNC_GROUP, _E.REBALANCE_IN_PROGRESS, False, sync_in_a_rebalance),
    Case(_C, _A.SYNC_GROUP, _E.ILLEGAL_GENERATION, False, sync_of_an_old_generation),
    Case(_C, _A.JOIN_GROUP, _E.NONE, True, join_that_begins_a_generation),
    Case(_C, _A.JOIN_GROUP, _E.NONE, False, join_that_repeats_a_generation),
    Case(_C, _A.JOIN_GROUP, _E.INCONSISTENT_GROUP_PROTOCOL, False, join_with_another_protocol),
    Case(_C, _A.OFFSET_COMMIT, _E.NONE, True, commit_of_a_stable_member),
    Case(_C, _A.OFFSET_COMMIT, _E.NONE, True, commit_in_a_rebalance),
    Case(_C, _A.OFFSET_COMMIT, _E.REBALANCE_IN_PROGRESS, False, commit_before_the_assignment),
    Case(_C, _A.OFFSET_COMMIT, _E.ILLEGAL_GENERATION, False, commit_of_an_old_generation),
    Case(_C, _A.OFFSET_COMMIT, _E.OFFSET_METADATA_TOO_LARGE, True, commit_with_long_metadata),
    Case(_C, _A.OFFSET_COMMIT, _E.UNKNOWN_TOPIC_OR_PARTITION, False, commit_of_an_unknown_topic),
    Case(_C, _A.TXN_OFFSET_COMMIT, _E.NONE, False, commit_in_a_transaction),
    Case(_C, _A.OFFSET_FETCH, _E.NONE, False, fetch_of_offsets),
    Case(_U, _A.HEARTBEAT, _E.NONE, True, heartbeat_in_a_consumer_group),
    Case(_U, _A.HEARTBEAT, _E.REBALANCE_IN_PROGRESS, True, heartbeat_in_a_mixed_rebalance),
    Case(_U, _A.SYNC_GROUP, _E.NONE, True, sync_in_a_consumer_group),
    Case(_U, _A.JOIN_GROUP, _E.NONE, True, join_in_a_consumer_group),
    Case(_U, _A.OFFSET_COMMIT, _E.NONE, False, commit_in_a_consumer_group),
    Case(_K, _A.CONSUMER_GROUP_HEARTBEAT, _E.NONE, True, heartbeat_with_an_epoch),
    Case(_K, _A.CONSUMER_GROUP_HEARTBEAT, _FENCED, False, heartbeat_with_a_wrong_epoch),
    Case(_K, _A.OFFSET_COMMIT, _E.NONE, False, commit_with_an_epoch),
    Case(_K, _A.OFFSET_FETCH, _E.NONE, False, fetch_of_offsets_with_an_epoch),
    Case(_T, _A.STREAMS_GROUP_HEARTBEAT, _E.NONE, True, streams_heartbeat),
    Case(_T, _A.STREAMS_GROUP_HEARTBEAT, _FENCED, False, streams_heartbeat_at_a_wrong_epoch),
    Case(_H, _A.SHARE_GROUP_HEARTBEAT, _E.NONE, True, share_heartbeat),
    Case(_H, _A.SHARE_GROUP_HEARTBEAT, _FENCED, False, share_heartbeat_at_a_wrong_epoch),
)  # fmt: skip


def _scenario(case: Case) -> Callable[[World], None]:
    def run(world: World) -> None:
        code, renewed = outcome(case, world, time.sleep)
        world.record("the response", code.name)
        world.record("the session was renewed", renewed)
        world.record("as expected", (code, renewed) == (case.code, case.renews))

    run.__name__ = case.live.__name__
    return run


WAITING: Final = tuple(map(_scenario, CASES))
"""The cases as scenarios."""
