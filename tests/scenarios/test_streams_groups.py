"""Streams groups, rule by rule: answers, records and timers (KIP-1071)."""

from __future__ import annotations

import pytest

from kafkalite.groups.fencing import ASSIGNMENT_EPOCH, FENCING_KEY, REVOCATION_EPOCH, STRICT
from kafkalite.groups.group import CommitClaim
from kafkalite.groups.moments import time_of_day
from kafkalite.groups.streams.member import MemberState
from kafkalite.metadata.image import ConfigResource, MetadataDelta, ResourceType
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.records.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentValue,
)
from kafkalite.protocol.records.streams_group_metadata import StreamsGroupMetadataValue
from tests.scenarios.group_world import GroupWorld
from tests.scenarios.streams_world import (
    REBALANCE_MS,
    Request,
    Response,
    StreamsWorld,
    events_of,
    internal,
    reading,
    told,
)

FENCED = ErrorCode.FENCED_MEMBER_EPOCH
SESSION_MS = 45_000


def statuses(response: Response) -> list[int]:
    return [status.status_code for status in response.status or ()]


def detail(response: Response) -> str:
    """Return what the one status says in words."""
    assert response.status is not None
    (status,) = response.status
    return status.status_detail


# Members and their tasks


def test_the_first_member_gets_everything_at_epoch_2() -> None:
    world = StreamsWorld()
    response = world.joins("a")
    assert (response.member_id, response.member_epoch) == ("a", 2)
    assert told(response.active_tasks) == {"0": [0, 1, 2, 3]}
    assert (response.standby_tasks, response.warmup_tasks) == ([], [])
    assert response.heartbeat_interval_ms == 1_000
    assert statuses(response) == []
    assert world.kinds() == [
        "MemberMetadata",
        "Topology",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ]
    assert world.state() == "Stable"


def test_a_second_member_waits_until_the_first_lets_go() -> None:
    world = StreamsWorld()
    world.joins("a")
    second = world.joins("b")
    assert (second.member_epoch, second.active_tasks) == (3, [])
    assert world.group.current_of("b").state is MemberState.UNRELEASED_TASKS
    asked = world.beats("a", 2)
    assert (asked.member_epoch, told(asked.active_tasks)) == (2, {"0": [0, 1]})
    assert world.beats("a", 2).active_tasks is None
    assert world.beats("a", 2, {"0": [0, 1, 2]}).member_epoch == 2
    assert world.beats("a", 2, {"0": [0, 1]}).member_epoch == 3
    given = world.beats("b", 3)
    assert (given.member_epoch, told(given.active_tasks)) == (3, {"0": [2, 3]})
    assert world.state() == "Stable"


def test_tasks_carry_the_epoch_they_were_assigned_at() -> None:
    world = StreamsWorld()
    world.pair()
    assert world.group.current_of("a").assigned.active == {"0": {0: 2, 1: 2}}
    assert world.group.current_of("b").assigned.active == {"0": {2: 3, 3: 3}}
    world.written()
    world.beats("b", -1)
    world.beats("a", 3)
    current = world.written()[-1].value
    assert isinstance(current, StreamsGroupCurrentMemberAssignmentValue)
    (given,) = current.active_tasks
    assert (given.partitions, given.assignment_epochs) == ([0, 1, 2, 3], [2, 2, 4, 4])


def test_a_member_that_leaves_frees_its_tasks() -> None:
    world = StreamsWorld()
    world.pair()
    world.written()
    left = world.beats("b", -1)
    assert (left.member_id, left.member_epoch, left.status) == ("b", -1, [])
    assert world.kinds() == [
        "-CurrentMemberAssignment",
        "-TargetAssignmentMember",
        "-MemberMetadata",
        "Metadata",
    ]
    assert world.state() == "Assigning"
    response = world.beats("a", 3)
    assert (response.member_epoch, told(response.active_tasks)) == (4, {"0": [0, 1, 2, 3]})


def test_what_a_member_says_anew_moves_the_group() -> None:
    world = StreamsWorld()
    world.joins("a")
    world.written()
    assert world.beats("a", 2).member_epoch == 2
    assert world.written() == []
    assert world.beats("a", 2, rack_id="r").member_epoch == 3
    assert world.kinds()[:2] == ["MemberMetadata", "Metadata"]
    assert world.joins("a", rack_id="r").member_epoch == 3
    assert world.written() == []
    tags = [Request.KeyValue(key="zone", value="x")]
    assert world.beats("a", 3, client_tags=tags).member_epoch == 4
    endpoint = Request.Endpoint(host="here", port=1)
    assert world.beats("a", 4, user_endpoint=endpoint).member_epoch == 5
    assert world.beats("a", 5, rebalance_timeout_ms=5).member_epoch == 6
    assert world.beats("a", 6, process_id="other").member_epoch == 7


# Epochs


def test_epochs_that_are_not_the_members_are_fenced() -> None:
    world = StreamsWorld()
    world.pair()
    for epoch in (1, 2, 4, 9):
        assert world.refused("b", epoch) is FENCED
    assert world.refused("nobody", 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_lost_answer_lets_a_member_come_one_step_behind() -> None:
    world = StreamsWorld()
    kept = world.pair()
    assert world.beats("a", 2, {"0": kept}).member_epoch == 3
    assert world.beats("a", 2, {}).member_epoch == 3
    assert world.refused("a", 2) is FENCED
    assert world.refused("a", 2, {"0": [0, 1, 2, 3]}) is FENCED
    assert world.refused("a", 2, {"0": kept, "1": [0]}) is FENCED


def test_tasks_that_the_topology_does_not_have_are_refused() -> None:
    world = StreamsWorld()
    world.joins("a")
    before = world.records()
    for active in ({"1": [0]}, {"0": [4]}, {"0": [-1]}):
        assert world.refused("a", 2, active) is ErrorCode.INVALID_REQUEST
    assert world.records() == before


def test_a_member_in_a_state_of_the_future_begins_anew() -> None:
    world = StreamsWorld()
    world.joins("a")
    value = world.records()[-1].value
    assert isinstance(value, StreamsGroupCurrentMemberAssignmentValue)
    value.state = 9
    world.machine.replay(world.records()[-1]._replace(value=value))
    assert world.refused("a", 2) is FENCED
    assert told(world.beats("a", 2, {}).active_tasks) is None
    assert world.state() == "Stable"


def test_a_group_that_is_full_takes_nobody_not_even_a_member_anew() -> None:
    world = StreamsWorld(config={"group.streams.max.size": "1"})
    world.joins("a")
    for member in ("a", "b"):
        with pytest.raises(KafkaError) as refusal:
            world.joins(member)
        assert refusal.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.beats("a", 2).member_epoch == 2


# Timers


def test_a_silent_member_is_removed_when_its_session_is_over() -> None:
    world = StreamsWorld()
    world.pair()
    world.clock.advance(SESSION_MS - 1)
    world.beats("a", 3)
    world.clock.advance(1)
    assert list(world.group.members) == ["a"]
    assert told(world.beats("a", 3).active_tasks) == {"0": [0, 1, 2, 3]}
    world.clock.advance(SESSION_MS - 2)
    assert world.state() == "Stable"
    world.clock.advance(2)
    assert world.state() == "Empty"
    assert world.refused("a", 4) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_let_go_is_removed() -> None:
    world = StreamsWorld()
    world.joins("a", rebalance_timeout_ms=5_000)
    world.joins("b")
    world.beats("a", 2)
    world.clock.advance(4_999)
    world.beats("a", 2)
    world.clock.advance(1)
    assert list(world.group.members) == ["b"]
    assert told(world.beats("b", 3).active_tasks) == {"0": [0, 1, 2, 3]}


def test_a_member_that_lets_go_in_time_stays() -> None:
    world = StreamsWorld()
    world.pair()
    for _ in range(3):
        world.clock.advance(REBALANCE_MS // 2)
        world.beats("a", 3)
        world.beats("b", 3)
    assert world.state() == "Stable"


def test_timers_begin_anew_after_a_restart() -> None:
    world = StreamsWorld()
    world.joins("a", rebalance_timeout_ms=5_000)
    world.joins("b")
    world.beats("a", 2)
    world.clock.advance(3_000)
    world = world.again()
    assert world.group.current_of("a").state is MemberState.UNREVOKED_TASKS
    world.clock.advance(4_999)
    assert sorted(world.group.members) == ["a", "b"]
    world.clock.advance(1)
    assert list(world.group.members) == ["b"]
    world.clock.advance(SESSION_MS)
    assert world.state() == "Empty"


def test_a_new_group_waits_for_more_members_if_it_is_told_to() -> None:
    world = StreamsWorld(config={"group.streams.initial.rebalance.delay.ms": "3000"})
    first = world.joins("a")
    assert (first.member_epoch, told(first.active_tasks), statuses(first)) == (1, {}, [5])
    world.clock.advance(1_000)
    second = world.joins("b")
    assert (second.member_epoch, statuses(second)) == (1, [5])
    assert world.state() == "Assigning"
    world.written()
    world.clock.advance(1_999)
    assert statuses(world.beats("a", 1)) == [5]
    assert world.written() == []
    world.clock.advance(1)
    assert world.kinds() == [
        "TargetAssignmentMember",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
    ]
    assert world.state() == "Reconciling"
    for member in ("a", "b"):
        response = world.beats(member, 1)
        assert (response.member_epoch, statuses(response)) == (3, [])
        assert response.active_tasks


def test_a_group_that_emptied_waits_again() -> None:
    world = StreamsWorld(config={"group.streams.initial.rebalance.delay.ms": "3000"})
    world.joins("a")
    world.beats("a", -1)
    world.clock.advance(3_000)
    assert world.state() == "Empty"
    assert statuses(world.joins("a")) == [5]
    world.clock.advance(2_999)
    assert statuses(world.beats("a", 1)) == [5]
    world.clock.advance(1)
    assert told(world.beats("a", 1).active_tasks) == {"0": [0, 1, 2, 3]}


def test_assignments_keep_their_interval() -> None:
    world = StreamsWorld(config={"group.streams.assignment.interval.ms": "1000"})
    world.joins("a")
    second = world.joins("b")
    assert (second.member_epoch, statuses(second)) == (2, [5])
    world.clock.advance(999)
    assert statuses(world.beats("a", 2)) == [5]
    world.clock.advance(1)
    response = world.beats("a", 2)
    assert (statuses(response), told(response.active_tasks)) == ([], {"0": [0, 1]})


# Topologies and topics


def test_an_application_waits_for_its_source_topics() -> None:
    world = StreamsWorld(topics={})
    response = world.joins("a")
    assert (response.member_epoch, told(response.active_tasks)) == (2, {})
    assert statuses(response) == [1]
    assert "in" in detail(response)
    assert world.state() == "NotReady"
    world.set_topic("in", 2)
    response = world.beats("a", 2)
    assert (response.member_epoch, told(response.active_tasks)) == (3, {"0": [0, 1]})
    assert (statuses(response), world.state()) == ([], "Stable")


def test_a_topic_that_grows_brings_tasks_and_one_that_goes_takes_them() -> None:
    world = StreamsWorld(topics={"in": 1})
    world.joins("a")
    world.set_topic("in", 3)
    response = world.beats("a", 2)
    assert (response.member_epoch, told(response.active_tasks)) == (3, {"0": [0, 1, 2]})
    gone = world.topics.pop("in")
    world.show(MetadataDelta(deleted=(gone,)))
    response = world.beats("a", 3)
    assert (response.member_epoch, told(response.active_tasks)) == (3, {})
    assert (statuses(response), world.state()) == ([1], "NotReady")
    assert world.beats("a", 3, {}).member_epoch == 4


def test_internal_topics_are_asked_for_until_they_are_there() -> None:
    changelog = internal("store", replicas=1, configs={"cleanup.policy": "compact"})
    world = StreamsWorld(subtopologies=[reading("in", state_changelog_topics=[changelog])])
    beaten = world.ask(world.joining("a"))
    assert statuses(beaten.response) == [3]
    (missing,) = beaten.missing_topics
    assert (missing.name, missing.partitions, missing.replication_factor) == ("store", 4, 1)
    assert missing.configs == (("cleanup.policy", "compact"),)
    assert world.state() == "NotReady"
    world.set_topic("store", 4)
    response = world.beats("a", 2)
    assert (statuses(response), told(response.active_tasks)) == ([], {"0": [0, 1, 2, 3]})


def test_topics_that_cannot_be_read_together_are_told() -> None:
    together = [Request.CopartitionGroup(source_topics=[0, 1])]
    world = StreamsWorld(
        topics={"in": 2, "other": 3},
        subtopologies=[reading("in", "other", copartition_groups=together)],
    )
    response = world.joins("a")
    assert statuses(response) == [2]
    assert "in=2, other=3" in detail(response)


def test_a_topology_cannot_be_changed_yet() -> None:
    world = StreamsWorld()
    world.joins("a", epoch=3)
    assert statuses(world.joins("b", epoch=2)) == [0]
    before = world.records()
    world.subtopologies = [reading("in", name="other")]
    for epoch in (3, 4):
        with pytest.raises(KafkaError) as refusal:
            world.joins("c", epoch=epoch)
        assert refusal.value.code is ErrorCode.INVALID_REQUEST
    assert world.records() == before
    assert statuses(world.joins("c", epoch=1)) == [0]
    assert statuses(world.beats("c", 4)) == [0]


@pytest.mark.parametrize(
    ("topology", "code"),
    [
        (Request.Topology(epoch=-1), ErrorCode.UNKNOWN_SERVER_ERROR),
        (
            Request.Topology(subtopologies=[reading("in"), reading("in")]),
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
        (Request.Topology(subtopologies=[reading()]), ErrorCode.STREAMS_INVALID_TOPOLOGY),
    ],
)
def test_a_topology_that_nothing_could_make_work_leaves_no_trace(
    topology: Request.Topology, code: ErrorCode
) -> None:
    world = StreamsWorld()
    with pytest.raises(KafkaError) as refusal:
        world.joins("a", topology=topology)
    assert refusal.value.code is code
    assert (world.records(), world.state()) == ([], None)


def test_of_100_000_missing_topics_a_few_are_named() -> None:
    names = [f"topic-{index:06}" for index in range(100_000)]
    world = StreamsWorld(subtopologies=[reading(*names)])
    response = world.joins("a")
    assert statuses(response) == [1]
    assert detail(response).endswith("topic-000000, topic-000001, topic-000002 and 99997 more.")


# Standby tasks, and settings


def _stateful(**config: str) -> StreamsWorld:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return StreamsWorld(
        topics={"in": 2, "store": 2},
        config=settings,
        subtopologies=[reading("in", state_changelog_topics=[internal("store")])],
    )


def test_standbys_are_kept_by_other_processes() -> None:
    world = _stateful(group_streams_num_standby_replicas="1")
    world.joins("a")
    world.joins("b")
    kept = told(world.beats("a", 2).active_tasks) or {}
    world.beats("a", 2, kept)
    # The process has to let the task go before it may keep a copy of it.
    for response in (world.beats("b", 3), world.beats("a", 3)):
        active, standby = told(response.active_tasks) or {}, told(response.standby_tasks) or {}
        assert sorted([*active["0"], *standby["0"]]) == [0, 1]
    assert world.state() == "Stable"


def test_other_settings_move_the_group_to_another_assignment() -> None:
    world = _stateful()
    world.joins("a")
    world.joins("b")
    world.beats("a", 2)
    world.beats("a", 2, {"0": [0]})
    world.beats("b", 3)
    world.config.publish({}, {"g": {"streams.num.standby.replicas": "1"}})
    world.show(MetadataDelta(configs=frozenset({ConfigResource(ResourceType.GROUP, "g")})))
    world.written()
    assert told(world.beats("a", 3).standby_tasks) == {"0": [1]}
    metadata = world.written()[0].value
    assert isinstance(metadata, StreamsGroupMetadataValue)
    assert [(each.key, each.value) for each in metadata.last_assignment_configs or ()] == [
        ("num.standby.replicas", "1")
    ]


def test_a_groups_own_timeouts_are_heard_at_once() -> None:
    world = StreamsWorld()
    world.joins("a")
    own = {"streams.session.timeout.ms": "50000", "streams.heartbeat.interval.ms": "2000"}
    world.config.publish({}, {"g": own})
    world.show(MetadataDelta(configs=frozenset({ConfigResource(ResourceType.GROUP, "g")})))
    assert world.beats("a", 2).heartbeat_interval_ms == 2_000
    world.clock.advance(49_999)
    assert world.state() == "Stable"
    world.clock.advance(1)
    assert world.state() == "Empty"


# What members are told besides


def test_a_member_may_ask_all_of_them_to_stop() -> None:
    world = StreamsWorld()
    world.joins("a")
    world.joins("b")
    assert statuses(world.beats("b", 3, shutdown_application=True)) == [4]
    told_a = world.beats("a", 2)
    assert statuses(told_a) == [4]
    assert "b" in detail(told_a)
    world.beats("b", -1)
    assert statuses(world.beats("a", 2)) == [4]
    world.beats("a", -1)
    assert statuses(world.joins("a")) == []


def test_members_are_told_who_answers_for_which_partitions() -> None:
    world = StreamsWorld(topics={"in": 2})
    here = Request.Endpoint(host="here", port=1)
    first = world.joins("a", user_endpoint=here, endpoint_information_epoch=-1)
    assert first.endpoint_information_epoch == 0
    assert first.partitions_by_user_endpoint is not None
    (entry,) = first.partitions_by_user_endpoint
    assert (entry.user_endpoint.host, entry.user_endpoint.port) == ("here", 1)
    (partitions,) = entry.active_partitions
    assert (partitions.topic, partitions.partitions) == ("in", [0, 1])
    assert world.beats("a", 2).partitions_by_user_endpoint is None
    world.joins("b")
    told_a = world.beats("a", 2, endpoint_information_epoch=0)
    assert told_a.endpoint_information_epoch == 1
    assert told_a.partitions_by_user_endpoint is not None
    (entry,) = told_a.partitions_by_user_endpoint
    assert entry.active_partitions[0].partitions == [0]


# Commits


def _committing(rule: str) -> StreamsWorld:
    return StreamsWorld(config={FENCING_KEY: rule})


@pytest.mark.parametrize(
    ("rule", "retained", "given_up", "received"),
    [
        (STRICT, "STALE_MEMBER_EPOCH", "STALE_MEMBER_EPOCH", "STALE_MEMBER_EPOCH"),
        # b gave nothing up, which is all this rule looks at.
        (REVOCATION_EPOCH, "STALE_MEMBER_EPOCH", "STALE_MEMBER_EPOCH", "NONE"),
        (ASSIGNMENT_EPOCH, "NONE", "STALE_MEMBER_EPOCH", "STALE_MEMBER_EPOCH"),
    ],
)
def test_commits_of_the_past_after_a_revocation(
    rule: str, retained: str, given_up: str, received: str
) -> None:
    """KAFKA-19779: a gave tasks up on its way from epoch 2 to 3, b was given them."""
    world = _committing(rule)
    world.pair()
    assert world.commit_as("a", 2, 0) == retained
    assert world.commit_as("a", 2, 2) == given_up
    assert world.commit_as("b", 2, 2) == received
    assert world.commit_as("a", 3, 0, 1) == "NONE"
    assert world.commit_as("b", 3, 2, 3) == "NONE"
    assert world.commit_as("a", 4, 0) == "STALE_MEMBER_EPOCH"


@pytest.mark.parametrize(
    ("rule", "retained"),
    [(STRICT, "STALE_MEMBER_EPOCH"), (REVOCATION_EPOCH, "NONE"), (ASSIGNMENT_EPOCH, "NONE")],
)
def test_commits_of_the_past_without_a_revocation(rule: str, retained: str) -> None:
    """The epoch moves on for a while without anything being taken away."""
    world = _committing(rule)
    world.joins("a")
    world.beats("a", 2, rack_id="r")
    assert world.group.current_of("a").member_epoch == 3
    assert world.commit_as("a", 2, 0) == retained
    assert world.group.current_of("a").revocation.epoch == 0


def test_the_epoch_of_the_last_revocation_is_recorded() -> None:
    world = StreamsWorld()
    world.pair()
    assert world.group.current_of("a").revocation.epoch == 2
    assert world.again().group.current_of("a").revocation.epoch == 2
    assert world.group.current_of("b").revocation.epoch == 0


def test_commits_are_refused_with_the_reason() -> None:
    world = StreamsWorld()
    world.pair()
    claim = {"rule": ASSIGNMENT_EPOCH, "owner": "b", "subtopology": "0", "assignment_epoch": None}
    with pytest.raises(KafkaError) as refusal:
        _commit_raw(world, "a", 2, 2)
    assert refusal.value.facts is not None
    assert claim.items() <= dict(refusal.value.facts).items()
    assert refusal.value.message == (
        "commit of in-2 at epoch 2 refused: task 0_2 revoked from this member at epoch 3 (rule "
        f"assignment-epoch); owner now b since {time_of_day(world.clock.now_ms())}"
    )
    with pytest.raises(KafkaError) as refusal:
        _commit_raw(world, "b", 2, 2)
    assert refusal.value.message == (
        "commit of in-2 at epoch 2 refused: task 0_2 became this member's at epoch 3 only (rule "
        "assignment-epoch)"
    )
    world.beats("b", -1)
    with pytest.raises(KafkaError) as refusal:
        _commit_raw(world, "b", 3, 2)
    assert "it left at" in (refusal.value.message or "")


def _commit_raw(world: StreamsWorld, member: str, epoch: int, partition: int) -> None:
    claim = CommitClaim(
        member_id=member, group_instance_id=None, generation_id_or_member_epoch=epoch
    )
    check = world.group.validate_offset_commit(claim)
    assert check is not None
    check("in", world.topics["in"].topic_id, partition)


def test_commits_need_a_member_and_a_version_that_knows_epochs() -> None:
    world = StreamsWorld()
    world.joins("a")
    assert world.commit_as("nobody", 2, 0) == "UNKNOWN_MEMBER_ID"
    assert world.commit_as("", -1, 0) == "UNKNOWN_MEMBER_ID"
    assert world.commit_as("a", -1, 0) == "STALE_MEMBER_EPOCH"
    assert world.commit_as("a", 2, 0, knows_member_epochs=False) == "UNSUPPORTED_VERSION"
    assert world.commit_as("", -1, 0, is_transactional=True) == "NONE"
    world.beats("a", -1)
    assert world.commit_as("", -1, 0) == "NONE"


def test_offsets_are_fetched_at_the_members_own_epoch_alone() -> None:
    world = StreamsWorld()
    world.joins("a")
    readable = world.machine.offsets.readable
    assert readable("g", None, -1) == readable("g", "a", 2) == {}
    for member, epoch, code in (
        ("a", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("nobody", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(KafkaError) as refusal:
            readable("g", member, epoch)
        assert refusal.value.code is code


# The group as a whole


def test_offsets_of_topics_that_are_read_stay_and_of_others_age() -> None:
    short = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
    world = StreamsWorld(topics={"in": 4, "other": 1}, config=short)
    world.joins("a")
    world.commit_as("a", 2, 0)
    world.commit_as("a", 2, 0, topic="other")
    world.clock.advance(40_000)
    world.beats("a", 2)
    assert sorted(world.committed()) == [("in", 0), ("other", 0)]
    world.clock.advance(40_000)
    world.beats("a", 2)
    assert sorted(world.committed()) == [("in", 0)]
    world.beats("a", -1)
    world.clock.advance(1_000)
    assert world.committed() == {}
    assert world.state() is None


def test_offsets_in_use_are_not_deleted() -> None:
    world = StreamsWorld()
    world.joins("a")
    world.commit_as("a", 2, 0)
    deleted = world.machine.offsets.delete("g", [("in", 0)])
    assert deleted.response == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    world.beats("a", -1)
    assert world.machine.offsets.delete("g", [("in", 0)]).response == [ErrorCode.NONE]


def test_a_group_is_deleted_when_it_is_empty() -> None:
    world = StreamsWorld()
    world.joins("a")
    with pytest.raises(KafkaError) as refusal:
        world.shard.write(lambda machine, _: machine.offsets.delete_group("g"))
    assert refusal.value.code is ErrorCode.NON_EMPTY_GROUP
    world.beats("a", -1)
    world.written()
    world.shard.write(lambda machine, _: machine.offsets.delete_group("g"))
    assert world.kinds() == ["-TargetAssignmentMetadata", "-Metadata", "-Topology"]
    assert world.state() is None
    assert world.joins("a").member_epoch == 2


def test_only_an_empty_classic_group_makes_room() -> None:
    world = StreamsWorld()
    world.commit({("in", 0): 7})
    assert world.joins("a").member_epoch == 2
    assert world.committed() == {("in", 0): 7}
    GroupWorld.join(world, group="h")
    with pytest.raises(KafkaError) as refusal:
        world.joins("a", group="h")
    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(KafkaError) as refusal:
        world.beats("a", 2, group="missing")
    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_described_with_its_topology_and_members() -> None:
    changelog = internal("store", replicas=1, configs={"cleanup.policy": "compact"})
    world = StreamsWorld(subtopologies=[reading("in", state_changelog_topics=[changelog])])
    tags = [Request.KeyValue(key="zone", value="x")]
    here = Request.Endpoint(host="here", port=1)
    world.joins("a", rack_id="r", client_tags=tags, user_endpoint=here)
    described = world.machine.streams.describe("g")
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == (
        "NotReady", 2, 2,
    )  # fmt: skip
    assert described.topology is not None
    assert described.topology.subtopologies is not None
    (subtopology,) = described.topology.subtopologies
    (topic,) = subtopology.state_changelog_topics
    assert (topic.name, topic.partitions, topic.replication_factor) == ("store", 0, 1)
    (member,) = described.members
    assert (member.member_id, member.process_id, member.rack_id) == ("a", "a", "r")
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert member.user_endpoint is not None
    assert (member.user_endpoint.host, member.client_tags[0].key) == ("here", "zone")
    world.set_topic("store", 4)
    world.beats("a", 2)
    described = world.machine.streams.describe("g")
    assert described.topology is not None
    assert described.topology.subtopologies is not None
    (subtopology,) = described.topology.subtopologies
    assert subtopology.state_changelog_topics[0].partitions == 4
    (member,) = described.members
    for assignment in (member.assignment, member.target_assignment):
        assert [each.partitions for each in assignment.active_tasks] == [[0, 1, 2, 3]]
    with pytest.raises(KafkaError) as refusal:
        world.machine.streams.describe("missing")
    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_every_rebalance_is_told_with_its_reason() -> None:
    world = StreamsWorld()
    joined, moved, assigned = events_of(world, world.joining("a"))
    assert (joined.subject, joined.kind, joined.text) == ("g", "joined", "member a joined")
    assert moved.kind == "rebalance"
    assert (
        moved.text
        == "group epoch 1 → 2: member a joined, topics changed, assignment settings changed"
    )
    assert assigned.text == "target for group epoch 2 computed by sticky: it changes for 1 member"
    world.joins("a")
    steady = Request(group_id="g", member_id="a", member_epoch=2)
    assert events_of(world, steady) == []
    left, moved = events_of(world, Request(group_id="g", member_id="a", member_epoch=-1))
    assert (left.kind, left.text) == ("left", "member a is gone: it left")
    assert moved.text == "group epoch 2 → 3: member a is gone: it left"


def test_members_that_are_removed_are_told_of() -> None:
    world = StreamsWorld()
    world.joins("a", rebalance_timeout_ms=5_000)
    world.joins("b")
    world.beats("a", 2)
    world.clock.advance(5_000)
    world.clock.advance(45_000)
    assert [
        (event.kind, event.facts["member_id"]) for event in world.events("fenced", "expired")
    ] == [
        ("fenced", "a"),
        ("expired", "b"),
    ]


def test_a_decision_that_cannot_be_recorded_changes_nothing() -> None:
    world = StreamsWorld()
    world.joins("a")
    before = world.group.current_of("a"), world.group.epoch
    world.log.fails_with = OSError(28, "disk full")
    with pytest.raises(KafkaError):
        world.joins("b")
    world.log.fails_with = OSError(28, "disk full")
    with pytest.raises(KafkaError):
        world.beats("a", -1)
    world.log.fails_with = None
    assert (world.group.current_of("a"), world.group.epoch) == before
    assert world.joins("b").member_epoch == 3
