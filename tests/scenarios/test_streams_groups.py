"""Streams groups: responses, records and timers for each rule (KIP-1071)."""

from __future__ import annotations

import pytest

from kafkalite.groups.group import CommitClaim
from kafkalite.groups.modern.offset_commit_fencing import (
    ASSIGNMENT_EPOCH,
    FENCING_KEY,
    REVOCATION_EPOCH,
    STRICT,
)
from kafkalite.groups.streams.member import MemberState
from kafkalite.groups.timestamps import time_of_day
from kafkalite.metadata.image import ConfigResource, MetadataDelta, ResourceType
from kafkalite.protocol._generated.records.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentValue,
)
from kafkalite.protocol._generated.records.streams_group_metadata import StreamsGroupMetadataValue
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.scenarios.streams_coordinator import (
    REBALANCE_MS,
    ManualStreamsCoordinator,
    Request,
    Response,
    events_of,
    internal,
    reading,
    tasks_in,
)

FENCED = ErrorCode.FENCED_MEMBER_EPOCH
SESSION_MS = 45_000


def statuses(response: Response) -> list[int]:
    return [status.status_code for status in response.status or ()]


def detail(response: Response) -> str:
    """Return the detail of the only status."""
    assert response.status is not None
    (status,) = response.status
    return status.status_detail


# Members and their tasks


def test_tasks_have_the_epoch_of_their_assignment() -> None:
    coordinator = ManualStreamsCoordinator()
    coordinator.pair()
    assert coordinator.group.current_of("a").assigned.active == {"0": {0: 2, 1: 2}}
    assert coordinator.group.current_of("b").assigned.active == {"0": {2: 3, 3: 3}}
    coordinator.written()
    coordinator.beats("b", -1)
    coordinator.beats("a", 3)
    current = coordinator.written()[-1].value
    assert isinstance(current, StreamsGroupCurrentMemberAssignmentValue)
    (given,) = current.active_tasks
    assert (given.partitions, given.assignment_epochs) == ([0, 1, 2, 3], [2, 2, 4, 4])


def test_a_changed_member_increases_the_group_epoch() -> None:
    coordinator = ManualStreamsCoordinator()
    coordinator.joins("a")
    coordinator.written()
    assert coordinator.beats("a", 2).member_epoch == 2
    assert coordinator.written() == []
    assert coordinator.beats("a", 2, rack_id="r").member_epoch == 3
    assert coordinator.kinds()[:2] == ["MemberMetadata", "Metadata"]
    assert coordinator.joins("a", rack_id="r").member_epoch == 3
    assert coordinator.written() == []
    tags = [Request.KeyValue(key="zone", value="x")]
    assert coordinator.beats("a", 3, client_tags=tags).member_epoch == 4
    endpoint = Request.Endpoint(host="here", port=1)
    assert coordinator.beats("a", 4, user_endpoint=endpoint).member_epoch == 5
    assert coordinator.beats("a", 5, rebalance_timeout_ms=5).member_epoch == 6
    assert coordinator.beats("a", 6, process_id="other").member_epoch == 7


# Epochs


def test_a_member_with_an_unknown_state_begins_again() -> None:
    coordinator = ManualStreamsCoordinator()
    coordinator.joins("a")
    value = coordinator.records()[-1].value
    assert isinstance(value, StreamsGroupCurrentMemberAssignmentValue)
    value.state = 9
    coordinator.machine.replay(coordinator.records()[-1]._replace(value=value))
    assert coordinator.refused("a", 2) is FENCED
    assert tasks_in(coordinator.beats("a", 2, {}).active_tasks) is None
    assert coordinator.state() == "Stable"


@pytest.mark.parametrize(("as_version", "refused"), [("4.3", "ab"), ("4.4", "b")])
def test_a_full_group_accepts_no_new_member(as_version: str, refused: str) -> None:
    """Before Kafka 4.4 a full group refuses its own members as well."""
    coordinator = ManualStreamsCoordinator(
        config={"group.streams.max.size": "1"}, as_version=as_version
    )
    coordinator.joins("a")
    for member in refused:
        with pytest.raises(KafkaError) as refusal:
            coordinator.joins(member)
        assert refusal.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert coordinator.beats("a", 2).member_epoch == 2


# Timers


def test_a_silent_member_is_removed_when_its_session_expires() -> None:
    coordinator = ManualStreamsCoordinator()
    coordinator.pair()
    coordinator.clock.advance(SESSION_MS - 1)
    coordinator.beats("a", 3)
    coordinator.clock.advance(1)
    assert list(coordinator.group.members) == ["a"]
    assert tasks_in(coordinator.beats("a", 3).active_tasks) == {"0": [0, 1, 2, 3]}
    coordinator.clock.advance(SESSION_MS - 2)
    assert coordinator.state() == "Stable"
    coordinator.clock.advance(2)
    assert coordinator.state() == "Empty"
    assert coordinator.refused("a", 4) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_revoke_is_removed() -> None:
    coordinator = ManualStreamsCoordinator()
    coordinator.joins("a", rebalance_timeout_ms=5_000)
    coordinator.joins("b")
    coordinator.beats("a", 2)
    coordinator.clock.advance(4_999)
    coordinator.beats("a", 2)
    coordinator.clock.advance(1)
    assert list(coordinator.group.members) == ["b"]
    assert tasks_in(coordinator.beats("b", 3).active_tasks) == {"0": [0, 1, 2, 3]}


def test_a_member_that_revokes_in_time_remains() -> None:
    coordinator = ManualStreamsCoordinator()
    coordinator.pair()
    for _ in range(3):
        coordinator.clock.advance(REBALANCE_MS // 2)
        coordinator.beats("a", 3)
        coordinator.beats("b", 3)
    assert coordinator.state() == "Stable"


def test_timers_start_again_after_a_restart() -> None:
    coordinator = ManualStreamsCoordinator()
    coordinator.joins("a", rebalance_timeout_ms=5_000)
    coordinator.joins("b")
    coordinator.beats("a", 2)
    coordinator.clock.advance(3_000)
    coordinator = coordinator.again()
    assert coordinator.group.current_of("a").state is MemberState.UNREVOKED_TASKS
    coordinator.clock.advance(4_999)
    assert sorted(coordinator.group.members) == ["a", "b"]
    coordinator.clock.advance(1)
    assert list(coordinator.group.members) == ["b"]
    coordinator.clock.advance(SESSION_MS)
    assert coordinator.state() == "Empty"


def test_a_new_group_waits_for_the_initial_rebalance_delay() -> None:
    coordinator = ManualStreamsCoordinator(
        config={"group.streams.initial.rebalance.delay.ms": "3000"}
    )
    first = coordinator.joins("a")
    assert (first.member_epoch, tasks_in(first.active_tasks), statuses(first)) == (1, {}, [5])
    coordinator.clock.advance(1_000)
    second = coordinator.joins("b")
    assert (second.member_epoch, statuses(second)) == (1, [5])
    assert coordinator.state() == "Assigning"
    coordinator.written()
    coordinator.clock.advance(1_999)
    assert statuses(coordinator.beats("a", 1)) == [5]
    assert coordinator.written() == []
    coordinator.clock.advance(1)
    assert coordinator.kinds() == [
        "TargetAssignmentMember",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
    ]
    assert coordinator.state() == "Reconciling"
    for member in ("a", "b"):
        response = coordinator.beats(member, 1)
        assert (response.member_epoch, statuses(response)) == (3, [])
        assert response.active_tasks


@pytest.mark.parametrize(("as_version", "epoch"), [("4.3", 1), ("4.4", 3)])
def test_a_group_that_became_empty_waits_again(as_version: str, epoch: int) -> None:
    """Since Kafka 4.4 the target of an empty group has the epoch of the group."""
    coordinator = ManualStreamsCoordinator(
        config={"group.streams.initial.rebalance.delay.ms": "3000"}, as_version=as_version
    )
    coordinator.joins("a")
    coordinator.beats("a", -1)
    coordinator.clock.advance(3_000)
    assert coordinator.state() == "Empty"
    assert statuses(coordinator.joins("a")) == [5]
    coordinator.clock.advance(2_999)
    assert statuses(coordinator.beats("a", epoch)) == [5]
    coordinator.clock.advance(1)
    assert tasks_in(coordinator.beats("a", epoch).active_tasks) == {"0": [0, 1, 2, 3]}


def test_assignments_respect_the_assignment_interval() -> None:
    coordinator = ManualStreamsCoordinator(config={"group.streams.assignment.interval.ms": "1000"})
    coordinator.joins("a")
    second = coordinator.joins("b")
    assert (second.member_epoch, statuses(second)) == (2, [5])
    coordinator.clock.advance(999)
    assert statuses(coordinator.beats("a", 2)) == [5]
    coordinator.clock.advance(1)
    response = coordinator.beats("a", 2)
    assert (statuses(response), tasks_in(response.active_tasks)) == ([], {"0": [0, 1]})


# Topologies and topics


def test_an_application_waits_for_its_source_topics() -> None:
    coordinator = ManualStreamsCoordinator(topics={})
    response = coordinator.joins("a")
    assert (response.member_epoch, tasks_in(response.active_tasks)) == (2, {})
    assert statuses(response) == [1]
    assert "in" in detail(response)
    assert coordinator.state() == "NotReady"
    coordinator.set_topic("in", 2)
    response = coordinator.beats("a", 2)
    assert (response.member_epoch, tasks_in(response.active_tasks)) == (3, {"0": [0, 1]})
    assert (statuses(response), coordinator.state()) == ([], "Stable")


def test_partitions_of_topics_determine_the_tasks() -> None:
    coordinator = ManualStreamsCoordinator(topics={"in": 1})
    coordinator.joins("a")
    coordinator.set_topic("in", 3)
    response = coordinator.beats("a", 2)
    assert (response.member_epoch, tasks_in(response.active_tasks)) == (3, {"0": [0, 1, 2]})
    gone = coordinator.topics.pop("in")
    coordinator.show(MetadataDelta(deleted=(gone,)))
    response = coordinator.beats("a", 3)
    assert (response.member_epoch, tasks_in(response.active_tasks)) == (3, {})
    assert (statuses(response), coordinator.state()) == ([1], "NotReady")
    assert coordinator.beats("a", 3, {}).member_epoch == 4


def test_missing_internal_topics_are_reported_until_they_exist() -> None:
    changelog = internal("store", replicas=1, configs={"cleanup.policy": "compact"})
    coordinator = ManualStreamsCoordinator(
        subtopologies=[reading("in", state_changelog_topics=[changelog])]
    )
    beaten = coordinator.ask(coordinator.joining("a"))
    assert statuses(beaten.response) == [3]
    (missing,) = beaten.missing_topics
    assert (missing.name, missing.partitions, missing.replication_factor) == ("store", 4, 1)
    assert missing.configs == (("cleanup.policy", "compact"),)
    assert coordinator.state() == "NotReady"
    coordinator.set_topic("store", 4)
    response = coordinator.beats("a", 2)
    assert (statuses(response), tasks_in(response.active_tasks)) == ([], {"0": [0, 1, 2, 3]})


def test_incompatible_partition_counts_are_reported() -> None:
    together = [Request.CopartitionGroup(source_topics=[0, 1])]
    coordinator = ManualStreamsCoordinator(
        topics={"in": 2, "other": 3},
        subtopologies=[reading("in", "other", copartition_groups=together)],
    )
    response = coordinator.joins("a")
    assert statuses(response) == [2]
    assert "in=2, other=3" in detail(response)


def test_a_topology_cannot_be_changed() -> None:
    coordinator = ManualStreamsCoordinator()
    coordinator.joins("a", epoch=3)
    assert statuses(coordinator.joins("b", epoch=2)) == [0]
    before = coordinator.records()
    coordinator.subtopologies = [reading("in", name="other")]
    for epoch in (3, 4):
        with pytest.raises(KafkaError) as refusal:
            coordinator.joins("c", epoch=epoch)
        assert refusal.value.code is ErrorCode.INVALID_REQUEST
    assert coordinator.records() == before
    assert statuses(coordinator.joins("c", epoch=1)) == [0]
    assert statuses(coordinator.beats("c", 4)) == [0]


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
def test_an_invalid_topology_changes_nothing(topology: Request.Topology, code: ErrorCode) -> None:
    coordinator = ManualStreamsCoordinator()
    with pytest.raises(KafkaError) as refusal:
        coordinator.joins("a", topology=topology)
    assert refusal.value.code is code
    assert (coordinator.records(), coordinator.state()) == ([], None)


def test_only_a_few_of_100_000_missing_topics_are_listed() -> None:
    names = [f"topic-{index:06}" for index in range(100_000)]
    coordinator = ManualStreamsCoordinator(subtopologies=[reading(*names)])
    response = coordinator.joins("a")
    assert statuses(response) == [1]
    assert detail(response) == (
        "Source topics topic-000000, topic-000001, topic-000002 and 99997 additional topics are "
        "missing."
    )


# Standby tasks, and settings


def _stateful(as_version: str | None = None, **config: str) -> ManualStreamsCoordinator:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return ManualStreamsCoordinator(
        topics={"in": 2, "store": 2},
        config=settings,
        subtopologies=[reading("in", state_changelog_topics=[internal("store")])],
        as_version=as_version,
    )


def test_an_active_task_becomes_a_standby_at_once() -> None:
    coordinator = _stateful(group_streams_num_standby_replicas="1")
    coordinator.joins("a")
    coordinator.joins("b")
    response = coordinator.beats("a", 2)
    (active,), (standby,) = (
        (tasks_in(response.active_tasks) or {})["0"],
        (tasks_in(response.standby_tasks) or {})["0"],
    )
    assert {active, standby} == {0, 1}
    # The other member gets the active task after its owner has released it.
    assert tasks_in(coordinator.beats("b", 3).standby_tasks) is None
    coordinator.beats("a", 2, {"0": [active]}, {"0": [standby]})
    assert tasks_in(coordinator.beats("b", 3).active_tasks) == {"0": [standby]}
    assert coordinator.state() == "Stable"


def test_a_standby_becomes_active_without_a_release() -> None:
    coordinator = _stateful(group_streams_num_standby_replicas="1")
    coordinator.joins("a")
    coordinator.joins("b")
    first = coordinator.beats("a", 2)
    active, standby = tasks_in(first.active_tasks) or {}, tasks_in(first.standby_tasks) or {}
    coordinator.beats("a", 2, active, standby)
    coordinator.beats("b", 3)
    coordinator.beats("a", -1)
    answer = coordinator.beats("b", 3)
    assert (answer.member_epoch, tasks_in(answer.active_tasks)) == (4, {"0": [0, 1]})
    assert tasks_in(answer.standby_tasks) == {}
    assert coordinator.state() == "Stable"


def test_the_places_of_standbys_are_in_the_history() -> None:
    coordinator = _stateful(
        group_streams_num_standby_replicas="1", group_streams_rack_aware_assignment_tags="zone"
    )
    zone = [Request.KeyValue(key="zone", value="x")]
    (alone,) = [
        event
        for event in events_of(coordinator, coordinator.joining("a", client_tags=zone))
        if event.kind == "standbys"
    ]
    assert alone.text.endswith(
        "2 not placed: every process has the task already; "
        "the tags zone have no influence on the assignor sticky"
    )
    coordinator.joins("a", client_tags=zone)
    (placed,) = [
        event
        for event in events_of(coordinator, coordinator.joining("b", client_tags=zone))
        if event.kind == "standbys"
    ]
    assert placed.facts["with_previous_owner"] == 1
    assert placed.facts["least_loaded"] == 1


# Static members


def _static_pair() -> ManualStreamsCoordinator:
    """Return a Stable group of the static member a, with the tasks 0 and 1, and b."""
    coordinator = ManualStreamsCoordinator()
    coordinator.joins("a", instance_id="i")
    coordinator.joins("b")
    coordinator.beats("a", 2, instance_id="i")
    coordinator.beats("a", 2, {"0": [0, 1]}, instance_id="i")
    coordinator.beats("b", 3)
    assert coordinator.state() == "Stable"
    return coordinator


def test_a_static_member_that_left_temporarily_is_replaced_without_a_rebalance() -> None:
    coordinator = _static_pair()
    assert coordinator.beats("a", -2, instance_id="i").member_epoch == -2
    assert (coordinator.state(), coordinator.group.current_of("a").assigned.active) == (
        "Reconciling", {"0": {0: 0, 1: 0}},
    )  # fmt: skip
    joined = coordinator.joins("c", instance_id="i", process_id="a")
    assert (joined.member_epoch, tasks_in(joined.active_tasks)) == (3, {"0": [0, 1]})
    assert (coordinator.state(), coordinator.group.static_members) == ("Stable", {"i": "c"})
    assert coordinator.commit_as("c", 3, 0, 1) == "NONE"
    coordinator.clock.advance(SESSION_MS - 1)
    coordinator.beats("b", 3)
    coordinator.beats("c", 3, instance_id="i")
    coordinator.clock.advance(1)
    assert sorted(coordinator.group.members) == ["b", "c"]
    assert coordinator.again().group.static_members == {"i": "c"}


def test_a_static_member_in_another_process_gets_a_new_assignment() -> None:
    coordinator = _static_pair()
    coordinator.beats("a", -2, instance_id="i")
    assert coordinator.joins("c", instance_id="i").member_epoch == 4


def test_a_static_member_that_has_no_target_yet_is_replaced() -> None:
    coordinator = ManualStreamsCoordinator(config={"group.streams.assignment.interval.ms": "1000"})
    coordinator.joins("a")
    assert coordinator.joins("b", instance_id="i").active_tasks == []
    coordinator.beats("b", -2, instance_id="i")
    assert "b" not in coordinator.group.target
    coordinator.clock.advance(1_000)
    joined = coordinator.joins("c", instance_id="i")
    assert (joined.member_epoch, joined.active_tasks) == (4, [])
    assert tasks_in(coordinator.beats("a", 2).active_tasks) == {"0": [0, 1]}
    coordinator.beats("a", 2, {"0": [0, 1]})
    assert tasks_in(coordinator.beats("c", 4).active_tasks) == {"0": [2, 3]}
    assert (coordinator.state(), coordinator.group.static_members) == ("Stable", {"i": "c"})


def test_an_instance_id_in_use_is_refused() -> None:
    coordinator = _static_pair()
    for member, epoch, instance_id, code in (
        ("c", 0, "i", ErrorCode.UNRELEASED_INSTANCE_ID),
        ("b", 3, "i", ErrorCode.FENCED_INSTANCE_ID),
        ("b", -2, "i", ErrorCode.FENCED_INSTANCE_ID),
        ("a", 3, "j", ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        request = coordinator.joining(member, instance_id=instance_id, member_epoch=epoch)
        with pytest.raises(KafkaError) as refusal:
            coordinator.ask(request)
        assert refusal.value.code is code


def test_an_absent_static_member_is_removed_when_its_session_expires() -> None:
    coordinator = _static_pair()
    coordinator.beats("a", -2, instance_id="i")
    coordinator.clock.advance(SESSION_MS - 1)
    coordinator.beats("b", 3)
    coordinator.clock.advance(1)
    assert (list(coordinator.group.members), coordinator.group.static_members) == (["b"], {})


def test_offsets_of_tasks_are_described_until_the_member_leaves() -> None:
    coordinator = ManualStreamsCoordinator()
    offsets = [Request.TaskOffset(subtopology_id="0", partition=1, offset=9)]
    coordinator.joins("a")
    coordinator.joins("b")
    coordinator.beats("a", 2, task_offsets=offsets)
    coordinator.beats("a", 2, task_end_offsets=offsets)
    second, first = coordinator.machine.streams.describe("g").members
    assert [each.offset for each in first.task_offsets + first.task_end_offsets] == [9, 9]
    assert (second.task_offsets, second.task_end_offsets) == ([], [])
    with pytest.raises(KafkaError) as refusal:
        coordinator.beats("a", 2, task_offsets=[*offsets, *offsets])
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    coordinator.beats("a", -1)
    assert coordinator.group.soft.task_offsets == {}


def test_standby_tasks_are_on_other_processes_before_kafka_4_4() -> None:
    coordinator = _stateful("4.3", group_streams_num_standby_replicas="1")
    coordinator.joins("a")
    coordinator.joins("b")
    retained = tasks_in(coordinator.beats("a", 2).active_tasks) or {}
    coordinator.beats("a", 2, retained)
    # The process must revoke the task before it gets a standby of it.
    for response in (coordinator.beats("b", 3), coordinator.beats("a", 3)):
        active, standby = (
            tasks_in(response.active_tasks) or {},
            tasks_in(response.standby_tasks) or {},
        )
        assert sorted([*active["0"], *standby["0"]]) == [0, 1]
    assert coordinator.state() == "Stable"


def test_a_changed_number_of_standbys_triggers_a_new_assignment() -> None:
    coordinator = _stateful()
    coordinator.joins("a")
    coordinator.joins("b")
    coordinator.beats("a", 2)
    coordinator.beats("a", 2, {"0": [0]})
    coordinator.beats("b", 3)
    coordinator.config.publish({}, {"g": {"streams.num.standby.replicas": "1"}})
    coordinator.show(MetadataDelta(configs=frozenset({ConfigResource(ResourceType.GROUP, "g")})))
    coordinator.written()
    assert tasks_in(coordinator.beats("a", 3).standby_tasks) == {"0": [1]}
    metadata = coordinator.written()[0].value
    assert isinstance(metadata, StreamsGroupMetadataValue)
    assert [(each.key, each.value) for each in metadata.last_assignment_configs or ()] == [
        ("num.standby.replicas", "1")
    ]


def test_a_groups_own_timeouts_take_effect_at_once() -> None:
    coordinator = ManualStreamsCoordinator()
    coordinator.joins("a")
    own = {"streams.session.timeout.ms": "50000", "streams.heartbeat.interval.ms": "2000"}
    coordinator.config.publish({}, {"g": own})
    coordinator.show(MetadataDelta(configs=frozenset({ConfigResource(ResourceType.GROUP, "g")})))
    assert coordinator.beats("a", 2).heartbeat_interval_ms == 2_000
    coordinator.clock.advance(49_999)
    assert coordinator.state() == "Stable"
    coordinator.clock.advance(1)
    assert coordinator.state() == "Empty"


# Other fields of responses


def test_a_member_may_request_a_shutdown_of_the_application() -> None:
    coordinator = ManualStreamsCoordinator()
    coordinator.joins("a")
    coordinator.joins("b")
    assert statuses(coordinator.beats("b", 3, shutdown_application=True)) == [4]
    response_a = coordinator.beats("a", 2)
    assert statuses(response_a) == [4]
    assert "b" in detail(response_a)
    coordinator.beats("b", -1)
    assert statuses(coordinator.beats("a", 2)) == [4]
    coordinator.beats("a", -1)
    assert statuses(coordinator.joins("a")) == []


# Commits


def _committing(rule: str) -> ManualStreamsCoordinator:
    return ManualStreamsCoordinator(config={FENCING_KEY: rule})


@pytest.mark.parametrize(
    ("rule", "retained", "given_up", "received"),
    [
        (STRICT, "STALE_MEMBER_EPOCH", "STALE_MEMBER_EPOCH", "STALE_MEMBER_EPOCH"),
        # b revoked nothing, which is all that this rule checks.
        (REVOCATION_EPOCH, "STALE_MEMBER_EPOCH", "STALE_MEMBER_EPOCH", "NONE"),
        (ASSIGNMENT_EPOCH, "NONE", "STALE_MEMBER_EPOCH", "STALE_MEMBER_EPOCH"),
    ],
)
def test_commits_with_an_old_epoch_after_a_revocation(
    rule: str, retained: str, given_up: str, received: str
) -> None:
    """KAFKA-19779: a revoked tasks between epochs 2 and 3, and b got them."""
    coordinator = _committing(rule)
    coordinator.pair()
    assert coordinator.commit_as("a", 2, 0) == retained
    assert coordinator.commit_as("a", 2, 2) == given_up
    assert coordinator.commit_as("b", 2, 2) == received
    assert coordinator.commit_as("a", 3, 0, 1) == "NONE"
    assert coordinator.commit_as("b", 3, 2, 3) == "NONE"
    assert coordinator.commit_as("a", 4, 0) == "STALE_MEMBER_EPOCH"


@pytest.mark.parametrize(
    ("rule", "retained"),
    [(STRICT, "STALE_MEMBER_EPOCH"), (REVOCATION_EPOCH, "NONE"), (ASSIGNMENT_EPOCH, "NONE")],
)
def test_commits_with_an_old_epoch_without_a_revocation(rule: str, retained: str) -> None:
    """The epoch changes while no task is revoked."""
    coordinator = _committing(rule)
    coordinator.joins("a")
    coordinator.beats("a", 2, rack_id="r")
    assert coordinator.group.current_of("a").member_epoch == 3
    assert coordinator.commit_as("a", 2, 0) == retained
    assert coordinator.group.current_of("a").revocation.epoch == 0


def test_the_epoch_of_the_last_revocation_is_stored() -> None:
    coordinator = ManualStreamsCoordinator()
    coordinator.pair()
    assert coordinator.group.current_of("a").revocation.epoch == 2
    assert coordinator.again().group.current_of("a").revocation.epoch == 2
    assert coordinator.group.current_of("b").revocation.epoch == 0


def test_refused_commits_have_a_reason() -> None:
    coordinator = ManualStreamsCoordinator()
    coordinator.pair()
    claim = {"rule": ASSIGNMENT_EPOCH, "owner": "b", "subtopology": "0", "assignment_epoch": None}
    with pytest.raises(KafkaError) as refusal:
        _commit_raw(coordinator, "a", 2, 2)
    assert refusal.value.facts is not None
    assert claim.items() <= dict(refusal.value.facts).items()
    assert refusal.value.message == (
        "commit of in-2 at epoch 2 refused: task 0_2 revoked from this member at epoch 3 (rule "
        f"assignment-epoch); current owner: b since {time_of_day(coordinator.clock.now_ms())}"
    )
    with pytest.raises(KafkaError) as refusal:
        _commit_raw(coordinator, "b", 2, 2)
    assert refusal.value.message == (
        "commit of in-2 at epoch 2 refused: task 0_2 was assigned to this member only at epoch 3 "
        "(rule assignment-epoch)"
    )
    coordinator.beats("b", -1)
    with pytest.raises(KafkaError) as refusal:
        _commit_raw(coordinator, "b", 3, 2)
    assert refusal.value.message == "Member b is not a member of group g."
    assert "it left at" in (refusal.value.explanation or "")


def _commit_raw(
    coordinator: ManualStreamsCoordinator, member: str, epoch: int, partition: int
) -> None:
    claim = CommitClaim(
        member_id=member, group_instance_id=None, generation_id_or_member_epoch=epoch
    )
    check = coordinator.group.validate_offset_commit(claim)
    assert check is not None
    check("in", coordinator.topics["in"].topic_id, partition)


def test_offsets_are_fetched_at_the_members_epoch_only() -> None:
    coordinator = ManualStreamsCoordinator()
    coordinator.joins("a")
    offsets_to_fetch = coordinator.machine.offsets.offsets_to_fetch
    assert offsets_to_fetch("g", None, -1) == offsets_to_fetch("g", "a", 2) == {}
    for member, epoch, code in (
        ("a", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("unknown", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(KafkaError) as refusal:
            offsets_to_fetch("g", member, epoch)
        assert refusal.value.code is code


# The group as a whole


def test_a_group_is_described_with_its_topology_and_members() -> None:
    changelog = internal("store", replicas=1, configs={"cleanup.policy": "compact"})
    coordinator = ManualStreamsCoordinator(
        subtopologies=[reading("in", state_changelog_topics=[changelog])]
    )
    tags = [Request.KeyValue(key="zone", value="x")]
    here = Request.Endpoint(host="here", port=1)
    coordinator.joins("a", rack_id="r", client_tags=tags, user_endpoint=here)
    described = coordinator.machine.streams.describe("g")
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
    coordinator.set_topic("store", 4)
    coordinator.beats("a", 2)
    described = coordinator.machine.streams.describe("g")
    assert described.topology is not None
    assert described.topology.subtopologies is not None
    (subtopology,) = described.topology.subtopologies
    assert subtopology.state_changelog_topics[0].partitions == 4
    (member,) = described.members
    for assignment in (member.assignment, member.target_assignment):
        assert [each.partitions for each in assignment.active_tasks] == [[0, 1, 2, 3]]
    with pytest.raises(KafkaError) as refusal:
        coordinator.machine.streams.describe("missing")
    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_every_rebalance_has_a_reason() -> None:
    coordinator = ManualStreamsCoordinator()
    joined, moved, assigned = events_of(coordinator, coordinator.joining("a"))
    assert (joined.subject, joined.kind, joined.text) == ("g", "joined", "member a joined")
    assert moved.kind == "rebalance"
    assert (
        moved.text
        == "group epoch 1 → 2: member a joined, topics changed, assignment settings changed"
    )
    assert assigned.text == "target for group epoch 2 computed by sticky: changed for 1 member"
    coordinator.joins("a")
    steady = Request(group_id="g", member_id="a", member_epoch=2)
    assert events_of(coordinator, steady) == []
    left, moved = events_of(coordinator, Request(group_id="g", member_id="a", member_epoch=-1))
    assert (left.kind, left.text) == ("left", "member a removed: it left")
    assert moved.text == "group epoch 2 → 3: member a removed: it left"


def test_removed_members_are_in_the_history() -> None:
    coordinator = ManualStreamsCoordinator()
    coordinator.joins("a", rebalance_timeout_ms=5_000)
    coordinator.joins("b")
    coordinator.beats("a", 2)
    coordinator.clock.advance(5_000)
    coordinator.clock.advance(45_000)
    assert [
        (event.kind, event.facts["member_id"]) for event in coordinator.events("fenced", "expired")
    ] == [
        ("fenced", "a"),
        ("expired", "b"),
    ]


def test_a_decision_that_cannot_be_stored_changes_nothing() -> None:
    coordinator = ManualStreamsCoordinator()
    coordinator.joins("a")
    before = coordinator.group.current_of("a"), coordinator.group.epoch
    coordinator.log.next_error = OSError(28, "disk full")
    with pytest.raises(KafkaError):
        coordinator.joins("b")
    coordinator.log.next_error = OSError(28, "disk full")
    with pytest.raises(KafkaError):
        coordinator.beats("a", -1)
    coordinator.log.next_error = None
    assert (coordinator.group.current_of("a"), coordinator.group.epoch) == before
    assert coordinator.joins("b").member_epoch == 3
