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

    from tests.conformance.scenario_cluster import ScenarioCluster

Pause: TypeAlias = Callable[[float], object]
"""Lets seconds pass."""
Life: TypeAlias = "Callable[[ScenarioCluster], Iterator[Any]]"
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


def _join(
    cluster: ScenarioCluster,
    group: Classic,
    member: str = "",
    on: str = "main",
    **fields: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Send a JoinGroup that is not answered yet."""
    request = group.join(
        member, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=_REBALANCE_MS, **fields
    )
    cluster.send(request, _JOIN if member or fields else _NAMELESS_JOIN, on)


def _answer(cluster: ScenarioCluster, on: str = "main") -> Any:  # noqa: ANN401 - any response class
    return cluster.connection(on).receive()


def _stable(cluster: ScenarioCluster, **fields: Any) -> tuple[Classic, str, int]:  # noqa: ANN401
    """Make a group with one member, its leader; returns group, member id and generation."""
    create_topic(cluster, f"{cluster.name}-topic")
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name, f"{cluster.name}-topic")
    _join(cluster, group, **fields)
    joined = _answer(cluster)
    member, generation = joined.member_id, joined.generation_id
    cluster.probe(group.sync(member, generation, member, instance=fields.get("instance")), _SYNC)
    return group, member, generation


def _wait_for(cluster: ScenarioCluster, group: Classic, state: str) -> None:
    cluster.call_until(
        DescribeGroupsRequest(groups=[group.group]),
        5,
        lambda found: found.groups[0].group_state == state,
        is_recorded=False,
    )


def _rebalance(cluster: ScenarioCluster, group: Classic) -> None:
    """Let another member join, so that the group waits for its members."""
    _join(cluster, group, on="another")
    _wait_for(cluster, group, "PreparingRebalance")


def _pair(cluster: ScenarioCluster) -> tuple[Classic, str, str, int]:
    """Make a group of a leader and another member, which have not sent SyncGroup."""
    group, leader, _ = _stable(cluster)
    _rebalance(cluster, group)
    _join(cluster, group, leader)
    joined = _answer(cluster)
    other = _answer(cluster, "another").member_id
    return group, leader, other, joined.generation_id


def heartbeat(cluster: ScenarioCluster) -> Iterator[Any]:
    group, member, generation = _stable(cluster)
    yield member
    yield cluster.probe(group.heartbeat(member, generation), _HEARTBEAT).error_code


def heartbeat_in_a_rebalance(cluster: ScenarioCluster) -> Iterator[Any]:
    group, member, generation = _stable(cluster)
    yield member
    _rebalance(cluster, group)
    yield cluster.probe(group.heartbeat(member, generation), _HEARTBEAT).error_code


def heartbeat_of_an_old_generation(cluster: ScenarioCluster) -> Iterator[Any]:
    group, member, generation = _stable(cluster)
    yield member
    yield cluster.probe(group.heartbeat(member, generation - 1), _HEARTBEAT).error_code


def heartbeat_of_a_fenced_member(cluster: ScenarioCluster) -> Iterator[Any]:
    group, member, generation = _stable(cluster, instance="one")
    yield member
    yield cluster.probe(group.heartbeat("old", generation, "one"), _HEARTBEAT).error_code


def sync_of_a_stable_member(cluster: ScenarioCluster) -> Iterator[Any]:
    group, member, generation = _stable(cluster)
    yield member
    yield cluster.probe(group.sync(member, generation, member), _SYNC).error_code


def sync_that_waits_for_the_leader(cluster: ScenarioCluster) -> Iterator[Any]:
    group, leader, other, generation = _pair(cluster)
    cluster.send(group.sync(other, generation), _SYNC, "another")
    yield other
    cluster.probe(group.sync(leader, generation, leader, other), _SYNC)
    yield _answer(cluster, "another").error_code


def sync_that_a_rebalance_ends(cluster: ScenarioCluster) -> Iterator[Any]:
    group, _leader, other, generation = _pair(cluster)
    cluster.send(group.sync(other, generation), _SYNC, "another")
    yield other
    _join(cluster, group, on="third")
    yield _answer(cluster, "another").error_code


def sync_in_a_rebalance(cluster: ScenarioCluster) -> Iterator[Any]:
    group, member, generation = _stable(cluster)
    yield member
    _rebalance(cluster, group)
    yield cluster.probe(group.sync(member, generation, member), _SYNC).error_code


def sync_of_an_old_generation(cluster: ScenarioCluster) -> Iterator[Any]:
    group, member, generation = _stable(cluster)
    yield member
    yield cluster.probe(group.sync(member, generation - 1, member), _SYNC).error_code


def join_that_begins_a_generation(cluster: ScenarioCluster) -> Iterator[Any]:
    group, member, _generation = _stable(cluster)
    yield member
    _join(cluster, group, member)
    yield _answer(cluster).error_code


def join_that_repeats_a_generation(cluster: ScenarioCluster) -> Iterator[Any]:
    group, leader, other, generation = _pair(cluster)
    cluster.send(group.sync(other, generation), _SYNC, "another")
    cluster.probe(group.sync(leader, generation, leader, other), _SYNC)
    _answer(cluster, "another")
    yield other
    _join(cluster, group, other, "another")
    yield _answer(cluster, "another").error_code


def join_with_another_protocol(cluster: ScenarioCluster) -> Iterator[Any]:
    group, member, _generation = _stable(cluster)
    yield member
    _join(cluster, group, member, kind="connect")
    yield _answer(cluster).error_code


def _committed(
    cluster: ScenarioCluster,
    member: str,
    generation: int,
    *,
    topic: str = "",
    metadata: str = "note",
) -> int:
    request = commit(
        cluster.name,
        topic or f"{cluster.name}-topic",
        0,
        member_id=member,
        epoch=generation,
        metadata=metadata,
    )
    return int(cluster.probe(request, 8).topics[0].partitions[0].error_code)


def commit_of_a_stable_member(cluster: ScenarioCluster) -> Iterator[Any]:
    _group, member, generation = _stable(cluster)
    yield member
    yield _committed(cluster, member, generation)


def commit_in_a_rebalance(cluster: ScenarioCluster) -> Iterator[Any]:
    group, member, generation = _stable(cluster)
    yield member
    _rebalance(cluster, group)
    yield _committed(cluster, member, generation)


def commit_before_the_assignment(cluster: ScenarioCluster) -> Iterator[Any]:
    group, _leader, other, generation = _pair(cluster)
    del group
    yield other
    yield _committed(cluster, other, generation)


def commit_of_an_old_generation(cluster: ScenarioCluster) -> Iterator[Any]:
    _group, member, generation = _stable(cluster)
    yield member
    yield _committed(cluster, member, generation - 1)


def commit_with_long_metadata(cluster: ScenarioCluster) -> Iterator[Any]:
    _group, member, generation = _stable(cluster)
    yield member
    yield _committed(cluster, member, generation, metadata="m" * 5_000)


def commit_of_an_unknown_topic(cluster: ScenarioCluster) -> Iterator[Any]:
    _group, member, generation = _stable(cluster)
    yield member
    yield _committed(cluster, member, generation, topic=f"{cluster.name}-missing")


def commit_in_a_transaction(cluster: ScenarioCluster) -> Iterator[Any]:
    _group, member, generation = _stable(cluster)
    name = cluster.name
    transactional_producer.wait_for_transaction_coordinator(cluster, name)
    init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    found = cluster.call_until(
        init, 4, lambda answer: answer.error_code == ErrorCode.NONE, is_recorded=False
    )
    producer = Producer(found.producer_id, found.producer_epoch)
    cluster.call_until(
        transactional_producer.add_offsets(name, producer, name),
        3,
        lambda answer: answer.error_code == ErrorCode.NONE,
        is_recorded=False,
    )
    # The preparations may have taken long.
    cluster.probe(Classic(name).heartbeat(member, generation), _HEARTBEAT)
    yield member
    request = transactional_producer.commit_offsets(
        name, producer, name, {f"{name}-topic": {0: 1}}, member_id=member, generation=generation
    )
    yield cluster.probe(request, 3).topics[0].partitions[0].error_code


def fetch_of_offsets(cluster: ScenarioCluster) -> Iterator[Any]:
    _group, member, _generation = _stable(cluster)
    yield member
    yield cluster.probe(fetch(cluster.name, f"{cluster.name}-topic", 0), 7).error_code


def _upgraded(cluster: ScenarioCluster) -> tuple[consumer_groups.Consumers, Classic, str, int]:
    """Make a consumer group with a member of each protocol; returns the classic one as well."""
    consumers = consumer_groups.new_group(cluster)
    _companion(cluster, consumers)
    group = Classic(consumers.group, consumers.topic)
    _join(cluster, group)
    joined = _answer(cluster)
    member, generation = joined.member_id, joined.generation_id
    cluster.probe(group.sync(member, generation), _SYNC)
    return consumers, group, member, generation


def _companion(cluster: ScenarioCluster, consumers: consumer_groups.Consumers) -> None:
    """Add a member of the consumer protocol, or renew its session; it gets no partitions."""
    cluster.probe(consumers.join("companion", subscribed_topic_names=[f"{cluster.name}-other"]), 1)


def heartbeat_in_a_consumer_group(cluster: ScenarioCluster) -> Iterator[Any]:
    consumers, group, member, generation = _upgraded(cluster)
    yield member
    _companion(cluster, consumers)
    yield cluster.probe(group.heartbeat(member, generation), _HEARTBEAT).error_code


def heartbeat_in_a_mixed_rebalance(cluster: ScenarioCluster) -> Iterator[Any]:
    consumers, group, member, generation = _upgraded(cluster)
    yield member
    _companion(cluster, consumers)
    cluster.probe(consumers.join("other"), 1)
    yield cluster.probe(group.heartbeat(member, generation), _HEARTBEAT).error_code


def sync_in_a_consumer_group(cluster: ScenarioCluster) -> Iterator[Any]:
    consumers, group, member, generation = _upgraded(cluster)
    yield member
    _companion(cluster, consumers)
    yield cluster.probe(group.sync(member, generation), _SYNC).error_code


def join_in_a_consumer_group(cluster: ScenarioCluster) -> Iterator[Any]:
    consumers, group, member, _generation = _upgraded(cluster)
    yield member
    _companion(cluster, consumers)
    _join(cluster, group, member)
    yield _answer(cluster).error_code


def commit_in_a_consumer_group(cluster: ScenarioCluster) -> Iterator[Any]:
    consumers, _group, member, generation = _upgraded(cluster)
    yield member
    _companion(cluster, consumers)
    yield _committed(cluster, member, generation)


def _shorten_sessions(cluster: ScenarioCluster, kind: str) -> None:
    """Set the session timeout of the group."""
    key = f"{kind}.session.timeout.ms"
    cluster.probe(alter(GROUP, cluster.name, (key, SET, str(SESSION_MS))), 1)
    settled(cluster, key, str(SESSION_MS), kind=GROUP)


def _consumer(cluster: ScenarioCluster) -> tuple[consumer_groups.Consumers, int]:
    consumers = consumer_groups.new_group(cluster)
    _shorten_sessions(cluster, "consumer")
    return consumers, cluster.probe(consumers.join("member"), 1).member_epoch


def heartbeat_with_an_epoch(cluster: ScenarioCluster) -> Iterator[Any]:
    consumers, epoch = _consumer(cluster)
    yield "member"
    yield cluster.probe(consumers.heartbeat("member", epoch), 1).error_code


def heartbeat_with_a_wrong_epoch(cluster: ScenarioCluster) -> Iterator[Any]:
    consumers, epoch = _consumer(cluster)
    yield "member"
    yield cluster.probe(consumers.heartbeat("member", epoch + 7), 1).error_code


def commit_with_an_epoch(cluster: ScenarioCluster) -> Iterator[Any]:
    consumers, epoch = _consumer(cluster)
    yield "member"
    request = commit(consumers.group, consumers.topic, 0, member_id="member", epoch=epoch)
    yield cluster.probe(request, 9).topics[0].partitions[0].error_code


def fetch_of_offsets_with_an_epoch(cluster: ScenarioCluster) -> Iterator[Any]:
    consumers, epoch = _consumer(cluster)
    yield "member"
    request = fetch(consumers.group, consumers.topic, 0, member_id="member", epoch=epoch)
    yield cluster.probe(request, 9).groups[0].error_code


def _streams(cluster: ScenarioCluster) -> tuple[streams_groups.Streams, int]:
    streams = streams_groups.new_group(cluster)
    _shorten_sessions(cluster, "streams")
    return streams, cluster.probe(streams.join("member"), 0).member_epoch


def streams_heartbeat(cluster: ScenarioCluster) -> Iterator[Any]:
    streams, epoch = _streams(cluster)
    yield "member"
    yield cluster.probe(streams.heartbeat("member", epoch), 0).error_code


def streams_heartbeat_at_a_wrong_epoch(cluster: ScenarioCluster) -> Iterator[Any]:
    streams, epoch = _streams(cluster)
    yield "member"
    yield cluster.probe(streams.heartbeat("member", epoch + 7), 0).error_code


def _sharer(cluster: ScenarioCluster) -> tuple[share_groups.Sharers, int]:
    topic = f"{cluster.name}-topic"
    topic_id = create_topic(cluster, topic)
    wait_for_group_coordinator(cluster, cluster.name)
    sharers = share_groups.Sharers(cluster.name, topic, topic_id)
    _shorten_sessions(cluster, "share")
    return sharers, cluster.probe(sharers.join("member"), 1).member_epoch


def share_heartbeat(cluster: ScenarioCluster) -> Iterator[Any]:
    sharers, epoch = _sharer(cluster)
    yield "member"
    yield cluster.probe(sharers.beat("member", epoch), 1).error_code


def share_heartbeat_at_a_wrong_epoch(cluster: ScenarioCluster) -> Iterator[Any]:
    sharers, epoch = _sharer(cluster)
    yield "member"
    yield cluster.probe(sharers.beat("member", epoch + 7), 1).error_code


_DESCRIPTIONS: Final[dict[MemberKind, Callable[[ScenarioCluster], Any]]] = {
    MemberKind.CLASSIC: lambda cluster: cluster.probe(
        DescribeGroupsRequest(groups=[cluster.name]), 5
    ),
    MemberKind.UPGRADED: lambda cluster: cluster.probe(
        ConsumerGroupDescribeRequest(group_ids=[cluster.name]), 1
    ),
    MemberKind.CONSUMER: lambda cluster: cluster.probe(
        ConsumerGroupDescribeRequest(group_ids=[cluster.name]), 1
    ),
    MemberKind.STREAMS: lambda cluster: cluster.probe(
        StreamsGroupDescribeRequest(group_ids=[cluster.name]), 0
    ),
    MemberKind.SHARE: lambda cluster: cluster.probe(
        ShareGroupDescribeRequest(group_ids=[cluster.name]), 1
    ),
}


def outcome(case: Case, cluster: ScenarioCluster, pause: Pause) -> tuple[ErrorCode, bool]:
    """Run a case; returns the error code of the request, and whether it renewed the session."""
    life = case.live(cluster)
    member = next(life)
    pause(_SILENCE_S)
    code = ErrorCode(next(life))
    pause(_SILENCE_S)
    members = _DESCRIPTIONS[case.kind](cluster).groups[0].members
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


def _scenario(case: Case) -> Callable[[ScenarioCluster], None]:
    def run(cluster: ScenarioCluster) -> None:
        code, renewed = outcome(case, cluster, time.sleep)
        cluster.record("the response", code.name)
        cluster.record("the session was renewed", renewed)
        cluster.record("as expected", (code, renewed) == (case.code, case.renews))

    run.__name__ = case.live.__name__
    return run


WAITING: Final = tuple(map(_scenario, CASES))
"""The cases as scenarios."""
