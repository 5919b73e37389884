"""The data plane of share groups (KIP-932): acquisition, acknowledgement, redelivery, errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol._generated.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
)
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
)
from kafkalite.protocol._generated.messages.read_share_group_state import ReadShareGroupStateRequest
from kafkalite.protocol._generated.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
)
from kafkalite.protocol._generated.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkalite.protocol._generated.messages.share_fetch import ShareFetchRequest
from kafkalite.protocol._generated.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import uuid_to_text
from tests.conformance.scenarios.configs import GROUP, SET, alter, settled
from tests.conformance.setup import UNKNOWN_ID, create_topic, fill

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.conformance.scenario_cluster import ScenarioCluster

V = 2
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
FIRST, LAST = 0, -1

Ack = tuple[int, int, "Sequence[int]"]
"""First offset, last offset, and one acknowledgement type for all or one for each."""


@dataclass(slots=True)
class Shared:
    """One share group and one topic; requests of its members."""

    cluster: ScenarioCluster
    group: str
    topic: str
    topic_id: bytes

    def fetch(
        self,
        member: str,
        epoch: int,
        *partitions: int,
        acks: Mapping[int, Sequence[Ack]] | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> ShareFetchRequest:
        """Make a ShareFetch request; by default it is answered at once."""
        acks = acks or {}
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=member,
            share_session_epoch=epoch,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1_000_000,
            max_records=500,
            batch_size=500,
            topics=[
                ShareFetchRequest.FetchTopic(
                    topic_id=self.topic_id,
                    partitions=[
                        ShareFetchRequest.FetchPartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                ShareFetchRequest.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=[*words]
                                )
                                for first, last, words in acks.get(index, [])
                            ],
                        )
                        for index in sorted({*partitions, *acks})
                    ],
                )
            ]
            if partitions or acks
            else [],
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    def ack(
        self,
        member: str,
        epoch: int,
        *batches: Ack,
        partition: int = 0,
        **fields: Any,  # noqa: ANN401
    ) -> ShareAcknowledgeRequest:
        """Make a ShareAcknowledge request."""
        row = ShareAcknowledgeRequest.AcknowledgePartition(
            partition_index=partition,
            acknowledgement_batches=[
                ShareAcknowledgeRequest.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=[*words]
                )
                for first, last, words in batches
            ],
        )
        topic = ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=self.topic_id, partitions=[row])
        request = ShareAcknowledgeRequest(
            group_id=self.group, member_id=member, share_session_epoch=epoch, topics=[topic]
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    def warm_up(self, partitions: int) -> None:
        """Wait until the states of partitions are loaded: a fetch does not wait for that."""
        response: set[int] = set()
        while len(response) < partitions:
            fetch = self.fetch("warm", FIRST, *range(partitions), max_wait_ms=20)
            answer = self.cluster.probe(fetch, V)
            response = {
                row.partition_index for topic in answer.responses for row in topic.partitions
            }
            self.cluster.probe(self.fetch("warm", LAST), V)

    def settled(self, first: int, last: int, deliveries: int = 1) -> None:
        """Wait until records are stored as available; a real broker responds before that."""
        expected = (first, last, 0, deliveries)

        def is_stored(answer: Any) -> bool:  # noqa: ANN401 - any response class
            batches = answer.results[0].partitions[0].state_batches
            return expected in [
                (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
                for each in batches
            ]

        self.cluster.call_until(
            read_state(self.group, self.topic_id, 0), 0, is_stored, is_recorded=False
        )

    def final_state(self, count: int) -> None:
        """Wait until the first `count` records are acknowledged or archived."""

        def is_final(answer: Any) -> bool:  # noqa: ANN401 - any response class
            row = answer.results[0].partitions[0]
            final = [each for each in row.state_batches if each.delivery_state in (2, 4)]
            # The start may have moved over some of them in the meantime.
            end = max((each.last_offset + 1 for each in final), default=row.start_offset)
            return len(final) == len(row.state_batches) and end == count

        request = read_state(self.group, self.topic_id, 0)
        response = self.cluster.call_until(request, 0, is_final, is_recorded=False)
        self.cluster.record("final state", is_final(response))

    def note_state(self, partition: int = 0, leader_epoch: int = 0) -> None:
        """Note the stored state of a partition."""
        self.cluster.ask(read_state(self.group, self.topic_id, partition, leader_epoch), 0)
        self.cluster.ask(summary(self.group, self.topic_id, partition), 1)


def initialize(
    group: str, topic_id: bytes, partitions: int, *, epoch: int = 0, start: int = 0
) -> InitializeShareGroupStateRequest:
    """Make a request to initialize the state of partitions."""
    row = InitializeShareGroupStateRequest.PartitionData
    return InitializeShareGroupStateRequest(
        group_id=group,
        topics=[
            InitializeShareGroupStateRequest.InitializeStateData(
                topic_id=topic_id,
                partitions=[
                    row(partition=index, state_epoch=epoch, start_offset=start)
                    for index in range(partitions)
                ],
            )
        ],
    )


def read_state(
    group: str, topic_id: bytes, partition: int, leader_epoch: int = 0
) -> ReadShareGroupStateRequest:
    """Request the state of a partition without fencing a leader."""
    row = ReadShareGroupStateRequest.PartitionData(partition=partition, leader_epoch=leader_epoch)
    topic = ReadShareGroupStateRequest.ReadStateData(topic_id=topic_id, partitions=[row])
    return ReadShareGroupStateRequest(group_id=group, topics=[topic])


def summary(group: str, topic_id: bytes, partition: int) -> ReadShareGroupStateSummaryRequest:
    """Make a request for the summary of a partition's state."""
    row = ReadShareGroupStateSummaryRequest.PartitionData(partition=partition, leader_epoch=-1)
    topic = ReadShareGroupStateSummaryRequest.ReadStateSummaryData(
        topic_id=topic_id, partitions=[row]
    )
    return ReadShareGroupStateSummaryRequest(group_id=group, topics=[topic])


def ready_share_coordinator(cluster: ScenarioCluster, group: str, topic_id: bytes) -> None:
    """Wait until the coordinator of a share partition's state exists and has loaded."""
    key = f"{group}:{uuid_to_text(topic_id)}:0"
    find = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    cluster.call_until(
        find, 6, lambda found: found.coordinators[0].error_code == ErrorCode.NONE, is_recorded=False
    )


def shared_topic(
    cluster: ScenarioCluster,
    *records: int,
    partitions: int = 1,
    start: int = 0,
    config: dict[str, str] | None = None,
    name: str = "",
) -> Shared:
    """Create a topic with batches of `size` records each, and a share group that may read it."""
    group = name or cluster.name
    topic = f"{group}-topic"
    topic_id = create_topic(cluster, topic, partitions)
    ready_share_coordinator(cluster, group, topic_id)
    if config:
        changes = [(name, SET, value) for name, value in config.items()]
        cluster.probe(alter(GROUP, group, *changes), 1)
        for key, _, value in changes:
            settled(cluster, key, value, GROUP, group)
    cluster.call_until(
        initialize(group, topic_id, partitions, start=start),
        0,
        lambda answer: all(row.error_code == 0 for row in answer.results[0].partitions),
        is_recorded=False,
    )
    shared = Shared(cluster, group, topic, topic_id)
    shared.warm_up(partitions)
    for count in records:
        fill(cluster, topic, *[b"v"] * count)
    return shared


def records_are_acquired_and_acknowledged(cluster: ScenarioCluster) -> None:
    """Acknowledge with the next fetch, and with ShareAcknowledge."""
    shared = shared_topic(cluster, 5, 5)
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    cluster.ask(shared.fetch("a", 1), V)
    shared.note_state()
    cluster.ask(shared.fetch("a", 2, acks={0: [(0, 4, [ACCEPT])]}), V)
    shared.note_state()
    cluster.ask(shared.ack("a", 3, (5, 9, [ACCEPT])), V)
    shared.note_state()
    cluster.ask(shared.ack("a", 4, (5, 9, [ACCEPT])), V)
    fill(cluster, shared.topic, b"later")
    cluster.ask(shared.fetch("a", 5), V)
    cluster.ask(shared.ack("a", LAST, (10, 10, [ACCEPT])), V)
    shared.note_state()
    cluster.ask(shared.fetch("a", 6), V)


def version_1_has_neither_modes_nor_renewal(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 5)
    cluster.ask(shared.fetch("a", FIRST, 0, max_records=2), 1)
    cluster.ask(shared.ack("a", 1, (0, 4, [RENEW])), 1)
    cluster.ask(shared.ack("a", 2, (0, 4, [ACCEPT])), 1)
    cluster.ask(shared.fetch("a", LAST), 1)


def released_records_are_delivered_again_until_the_limit(cluster: ScenarioCluster) -> None:
    """Deliver five times; near the limit in smaller batches, at last each record alone."""
    shared = shared_topic(cluster, 8)
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    for epoch in range(1, 30):
        answer = cluster.ask(shared.fetch("a", 2 * epoch - 1), V)
        acquired = [
            (row.first_offset, row.last_offset, [RELEASE])
            for topic in answer.responses
            for part in topic.partitions
            for row in part.acquired_records
        ]
        if epoch == 1:
            acquired = [(0, 7, [RELEASE])]
        cluster.ask(shared.ack("a", 2 * epoch, *acquired), V)
        shared.note_state()


def each_record_may_have_its_own_acknowledgement(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 6, 2)
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    words = [ACCEPT, RELEASE, REJECT, GAP, ACCEPT, RELEASE]
    cluster.ask(shared.ack("a", 1, (0, 5, words), (6, 7, [ACCEPT])), V)
    shared.note_state()
    cluster.ask(shared.fetch("a", 2), V)
    cluster.ask(shared.ack("a", 3, (1, 1, [ACCEPT]), (5, 5, [ACCEPT])), V)
    shared.note_state()
    cluster.ask(shared.fetch("a", 4), V)


def a_part_of_a_batch_is_acknowledged(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 10)
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    cluster.ask(shared.ack("a", 1, (3, 5, [ACCEPT])), V)
    cluster.ask(shared.ack("a", 2, (0, 1, [RELEASE])), V)
    shared.note_state()
    cluster.ask(shared.fetch("b", FIRST, 0), V)
    cluster.ask(shared.ack("a", 3, (0, 1, [ACCEPT])), V)
    cluster.ask(shared.ack("b", 1, (0, 1, [ACCEPT])), V)
    cluster.ask(shared.ack("a", 4, (2, 2, [ACCEPT]), (6, 9, [REJECT])), V)
    shared.note_state()


def two_members_share_a_partition(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 3, 3, 3)
    cluster.ask(shared.fetch("a", FIRST, 0, max_records=3), V)
    cluster.ask(shared.fetch("b", FIRST, 0, max_records=4), V)
    cluster.ask(shared.fetch("c", FIRST, 0), V)
    cluster.ask(shared.ack("b", 1, (0, 2, [ACCEPT])), V)
    cluster.ask(shared.ack("c", 1, (3, 8, [ACCEPT])), V)
    cluster.ask(shared.ack("b", 2, (3, 8, [ACCEPT])), V)
    cluster.ask(shared.ack("a", 1, (0, 2, [RELEASE])), V)
    cluster.ask(shared.fetch("c", 2), V)
    cluster.ask(shared.fetch("b", 3), V)
    cluster.ask(shared.fetch("b", LAST), V)
    cluster.ask(shared.fetch("c", LAST), V)
    shared.settled(0, 2, deliveries=2)
    cluster.ask(shared.fetch("a", 2), V)


def a_closed_session_releases_its_records(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 4, 4)
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    cluster.ask(shared.ack("a", LAST, (2, 5, [ACCEPT])), V)
    shared.settled(6, 7)
    shared.note_state()
    cluster.ask(shared.fetch("b", FIRST, 0), V)
    cluster.ask(shared.fetch("b", LAST, acks={0: [(0, 1, [ACCEPT])]}), V)
    shared.settled(6, 7, deliveries=2)
    shared.note_state()
    cluster.ask(shared.fetch("c", FIRST, 0), V)


def a_restarted_session_retains_its_records(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 4)
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    cluster.ask(shared.ack("a", 1, (0, 3, [ACCEPT])), V)


def sessions_have_epochs(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 2)
    cluster.ask(shared.fetch("a", 1, 0), V)
    cluster.ask(shared.fetch("a", LAST), V)
    cluster.ask(shared.ack("a", 1, (0, 0, [ACCEPT])), V)
    cluster.ask(shared.ack("a", LAST, (0, 0, [ACCEPT])), V)
    cluster.ask(shared.ack("a", FIRST, (0, 0, [ACCEPT])), V)
    cluster.ask(shared.fetch("a", FIRST, acks={0: [(0, 1, [ACCEPT])]}), V)
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    cluster.ask(shared.fetch("a", 2), V)
    cluster.ask(shared.fetch("a", -2), V)
    cluster.ask(shared.fetch("a", 1), V)
    cluster.ask(shared.fetch("a", 1), V)
    cluster.ask(shared.ack("a", 3, (0, 1, [ACCEPT])), V)
    cluster.ask(shared.ack("a", 2, (0, 1, [ACCEPT])), V)
    cluster.ask(shared.fetch("a", LAST), V)
    cluster.ask(shared.fetch("a", 3), V)


def requests_are_checked(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 4)
    cluster.ask(shared.fetch("a", FIRST, 0, group_id=None), V)
    cluster.ask(shared.fetch("", FIRST, 0), V)
    cluster.ask(shared.fetch("m" * 37, FIRST, 0), V)
    cluster.ask(shared.ack("", 1, (0, 0, [ACCEPT])), V)
    cluster.ask(shared.ack("a", 1, (0, 0, [ACCEPT]), group_id=None), V)
    cluster.ask(shared.fetch("a", FIRST, 0, max_records=0), V)
    cluster.ask(shared.fetch("a", 1, max_bytes=0), V)
    cluster.ask(shared.fetch("a", 2, share_acquire_mode=7), V)
    cluster.ask(shared.fetch("a", 3, is_renew_ack=True), V)
    cluster.ask(shared.fetch("a", 3), V)
    wrong: list[list[int]] = [[5], [-1], [RENEW], [], [ACCEPT, ACCEPT]]
    for index, words in enumerate(wrong):
        cluster.ask(shared.ack("a", 2 * index + 4, (0, 3, words)), V)
        cluster.ask(shared.fetch("a", 2 * index + 5, acks={0: [(0, 3, words)]}), V)


def acknowledgements_of_missing_records_are_refused(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 3, 3)
    cluster.ask(shared.fetch("a", FIRST, 0, max_records=3), V)
    wrong: list[list[Ack]] = [
        [(2, 1, [ACCEPT])],
        [(0, 1, [ACCEPT]), (0, 2, [ACCEPT])],
        [(0, 1, [ACCEPT]), (1, 2, [ACCEPT])],
        [(0, 3, [ACCEPT])],
        [(3, 5, [ACCEPT])],
        [(100, 200, [ACCEPT])],
        [(0, 2**62, [ACCEPT])],
        [(-5, -1, [ACCEPT])],
        [(-5, 2, [ACCEPT])],
        [(0, 0, [ACCEPT]), (7, 7, [ACCEPT])],
    ]
    for epoch, batches in enumerate(wrong, 1):
        cluster.ask(shared.ack("a", epoch, *batches), V)
    shared.note_state()
    cluster.ask(shared.ack("a", len(wrong) + 1), V)
    cluster.ask(shared.ack("a", len(wrong) + 2, (0, 2, [ACCEPT])), V)
    shared.note_state()


def missing_partitions_are_reported(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 1, partitions=2)
    cluster.ask(shared.fetch("a", FIRST, 0, 1, 7), V)
    cluster.ask(shared.fetch("a", 1), V)
    lost = shared.ack("a", 2, (0, 0, [ACCEPT]))
    lost.topics[0].topic_id = UNKNOWN_ID
    cluster.ask(lost, V)
    cluster.ask(shared.ack("a", 3, (0, 0, [RELEASE]), partition=7), V)
    cluster.ask(shared.ack("b", 4, (0, 0, [ACCEPT])), V)
    gone = ShareFetchRequest.ForgottenTopic(topic_id=shared.topic_id, partitions=[7])
    cluster.ask(shared.fetch("a", 4, forgotten_topics_data=[gone]), V)
    cluster.ask(shared.fetch("a", 5, 1), V)
    twice = shared.fetch("a", FIRST, 0)
    twice.topics[0].partitions *= 2
    cluster.ask(twice, V)


def a_topic_id_unknown_to_the_session_is_refused(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 2)
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    nowhere = shared.fetch("a", 1, acks={0: [(0, 1, [ACCEPT])]})
    nowhere.topics.append(shared.fetch("a", 1, 0).topics[0])
    nowhere.topics[-1].topic_id = UNKNOWN_ID
    cluster.ask(nowhere, V)
    cluster.ask(shared.ack("a", 2, (0, 1, [ACCEPT])), V)
    cluster.ask(shared.fetch("a", 3), V)
    forgotten = ShareFetchRequest.ForgottenTopic(topic_id=UNKNOWN_ID, partitions=[0])
    cluster.ask(shared.fetch("a", 4, forgotten_topics_data=[forgotten]), V)
    first = shared.fetch("b", FIRST, 0)
    first.topics[0].topic_id = UNKNOWN_ID
    cluster.ask(first, V)


def a_group_without_share_state_reads_nothing(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, f"{cluster.name}-topic")
    ready_share_coordinator(cluster, cluster.name, topic_id)
    shared = Shared(cluster, cluster.name, f"{cluster.name}-topic", topic_id)
    cluster.ask(shared.fetch("a", FIRST, 0, max_wait_ms=300), V)
    cluster.ask(shared.ack("a", 1, (0, 0, [ACCEPT])), V)
    shared.note_state()


def acquired_batches_start_like_those_of_the_log(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 2, 3, 4, 5)
    cluster.ask(shared.fetch("a", FIRST, 0, batch_size=4), V)
    cluster.ask(shared.ack("a", 1, (0, 13, [RELEASE])), V)
    cluster.ask(shared.fetch("a", 2, max_records=3), V)
    cluster.ask(shared.fetch("a", 3, batch_size=1), V)
    shared.note_state()


def the_record_limit_may_be_exact(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 5, 5)
    cluster.ask(shared.fetch("a", FIRST, 0, max_records=3, share_acquire_mode=1), V)
    cluster.ask(shared.fetch("b", FIRST, 0, max_records=3, share_acquire_mode=1), V)
    cluster.ask(shared.ack("a", 1, (0, 2, [RELEASE])), V)
    cluster.ask(shared.fetch("b", 1, max_records=1, share_acquire_mode=1), V)
    cluster.ask(shared.fetch("a", 2, max_records=10, share_acquire_mode=1), V)
    shared.note_state()
    cluster.ask(shared.ack("b", LAST, (0, 0, [ACCEPT]), (3, 4, [ACCEPT])), V)
    shared.settled(5, 5)
    shared.note_state()


def locks_are_renewed(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 4)
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    cluster.ask(shared.ack("a", 1, (0, 3, [RENEW]), is_renew_ack=True), V)
    cluster.ask(shared.ack("a", 2, (0, 3, [RENEW, ACCEPT, RENEW, RENEW]), is_renew_ack=True), V)
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0}
    acks = {0: [(0, 0, [RENEW])]}
    cluster.ask(shared.fetch("a", 3, acks=acks, is_renew_ack=True, **nothing), V)
    cluster.ask(shared.fetch("a", 4, acks={0: [(1, 1, [RENEW])]}, is_renew_ack=True, **nothing), V)
    shared.note_state()
    cluster.ask(shared.ack("a", 5, (0, 0, [ACCEPT]), (2, 3, [ACCEPT])), V)


def locks_may_not_be_renewed_if_the_group_disables_it(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 4, config={"share.renew.acknowledge.enable": "false"})
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    cluster.ask(shared.ack("a", 1, (0, 3, [RENEW]), is_renew_ack=True), V)
    cluster.ask(shared.ack("a", 2, (0, 3, [ACCEPT])), V)


def acquisition_locks_expire(cluster: ScenarioCluster) -> None:
    """Redeliver records that are not acknowledged in time, up to the delivery limit."""
    config = {"share.record.lock.duration.ms": "1000", "share.delivery.count.limit": "2"}
    shared = shared_topic(cluster, 2, 2, config=config)
    cluster.ask(shared.fetch("a", FIRST, 0, batch_size=1), V)
    cluster.ask(shared.ack("a", 1, (2, 3, [ACCEPT])), V)
    cluster.ask(shared.fetch("b", FIRST, 0, max_wait_ms=5000), V)
    cluster.ask(shared.ack("a", 2, (0, 1, [ACCEPT])), V)
    shared.note_state()
    cluster.ask(shared.fetch("c", FIRST, 0, max_wait_ms=1300), V)
    cluster.ask(shared.ack("b", 1, (0, 1, [ACCEPT])), V)
    shared.note_state()


def a_group_starts_at_the_configured_offset(cluster: ScenarioCluster) -> None:
    for reset in ("earliest", "latest", "by_duration:PT1H"):
        group = f"{cluster.name}-{reset[:4]}"
        topic_id = create_topic(cluster, f"{group}-topic")
        ready_share_coordinator(cluster, group, topic_id)
        cluster.probe(alter(GROUP, group, ("share.auto.offset.reset", SET, reset)), 1)
        settled(cluster, "share.auto.offset.reset", reset, GROUP, group)
        cluster.call_until(
            initialize(group, topic_id, 1, start=-1),
            0,
            lambda answer: answer.results[0].partitions[0].error_code == 0,
            is_recorded=False,
        )
        shared = Shared(cluster, group, f"{group}-topic", topic_id)
        fill(cluster, shared.topic, b"a", b"b")
        cluster.ask(shared.fetch("a", FIRST, 0, max_wait_ms=500), V)
        fill(cluster, shared.topic, b"c")
        cluster.ask(shared.fetch("a", 1, max_wait_ms=500), V)
        shared.note_state()


def invalid_sizes_are_answered(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 2, 2, 2)
    cluster.ask(shared.fetch("a", FIRST, 0, max_bytes=-1), V)
    cluster.ask(shared.fetch("a", 1, max_records=-1), V)
    cluster.ask(shared.fetch("a", 2, max_bytes=1), V)
    cluster.ask(shared.fetch("a", 3, min_bytes=-1, max_records=1), V)
    # With a batch size below 1 Kafka returns an empty range of records first.
    cluster.ask(shared.fetch("a", 4, max_records=2**31 - 1, batch_size=2**31 - 1), V)
    cluster.ask(shared.fetch("a", 5, max_wait_ms=-1), V)


def a_future_timestamp_is_no_start_offset(cluster: ScenarioCluster) -> None:
    for reset, records in (("by_duration:PT1H", 0), ("by_duration:PT0S", 2)):
        group = f"{cluster.name}-{records}"
        topic_id = create_topic(cluster, f"{group}-topic")
        ready_share_coordinator(cluster, group, topic_id)
        cluster.probe(alter(GROUP, group, ("share.auto.offset.reset", SET, reset)), 1)
        settled(cluster, "share.auto.offset.reset", reset, GROUP, group)
        cluster.probe(initialize(group, topic_id, 1, start=-1), 0)
        shared = Shared(cluster, group, f"{group}-topic", topic_id)
        if records:
            fill(cluster, shared.topic, *[b"v"] * records)
        cluster.ask(shared.fetch("a", FIRST, 0, max_wait_ms=300), V)
        shared.note_state()


def deleted_records_are_skipped(cluster: ScenarioCluster) -> None:
    """Start after deleted records, whether or not a member had acquired them."""
    shared = shared_topic(cluster, 4, 4, 4)
    delete_records(cluster, shared, 2)
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    cluster.ask(shared.fetch("a", 1, max_records=4), V)
    cluster.ask(shared.ack("a", 2, (4, 5, [RELEASE])), V)
    delete_records(cluster, shared, 7)
    cluster.ask(shared.fetch("a", 3), V)
    cluster.ask(shared.fetch("a", 4), V)
    cluster.ask(shared.ack("a", 5, (6, 6, [ACCEPT])), V)
    cluster.ask(shared.ack("a", 6, (7, 7, [ACCEPT])), V)
    shared.note_state()
    cluster.ask(shared.ack("a", 7, (8, 11, [ACCEPT])), V)
    shared.note_state()


def delete_records(cluster: ScenarioCluster, shared: Shared, offset: int) -> None:
    """Delete the records before an offset."""
    row = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name=shared.topic, partitions=[row])
    answer = cluster.probe(DeleteRecordsRequest(topics=[topic], timeout_ms=5000), 2)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE, answer


def a_reinitialized_state_fences_the_leader(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 4)
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    cluster.ask(initialize(shared.group, shared.topic_id, 1, epoch=5, start=2), 0)
    cluster.ask(shared.ack("a", 1, (0, 1, [ACCEPT])), V)
    cluster.ask(shared.fetch("a", 2, max_wait_ms=2000), V)
    cluster.ask(shared.ack("a", 3, (2, 3, [ACCEPT])), V)
    shared.note_state()


def a_deleted_state_cannot_be_written(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 4)
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    cluster.ask(delete_state(shared.group, shared.topic_id, 0), 0)
    cluster.ask(shared.ack("a", 1, (0, 3, [ACCEPT])), V)
    cluster.ask(shared.fetch("a", 2), V)


def records_in_flight_are_limited(cluster: ScenarioCluster) -> None:
    shared = shared_topic(
        cluster, 60, 60, 60, 60, config={"share.partition.max.record.locks": "100"}
    )
    cluster.ask(shared.fetch("a", FIRST, 0), V)
    cluster.ask(shared.fetch("b", FIRST, 0), V)
    cluster.ask(shared.ack("a", 1, (10, 19, [RELEASE])), V)
    cluster.ask(shared.fetch("b", 1), V)
    cluster.ask(shared.ack("a", 2, (0, 9, [ACCEPT])), V)
    cluster.ask(shared.fetch("b", 2), V)
    cluster.ask(shared.ack("a", 3, (20, 119, [ACCEPT])), V)
    cluster.ask(shared.ack("b", 3, (10, 19, [ACCEPT])), V)
    cluster.ask(shared.fetch("b", 4), V)
    shared.note_state()


def fetches_wait_for_records(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, partitions=2)
    cluster.ask(shared.fetch("a", FIRST, 0, 1), V)
    cluster.send(shared.fetch("a", 1, max_wait_ms=10_000), V)
    fill(cluster, shared.topic, b"one", b"two", partition=1)
    cluster.receive(title="the fetch that waited for records")
    # A real broker may notice a release only after the maximum wait.
    cluster.send(shared.fetch("b", FIRST, 0, 1, max_wait_ms=500), V, on="b")
    cluster.ask(shared.ack("a", 2, (0, 1, [RELEASE]), partition=1), V)
    cluster.receive(on="b", title="the fetch that waited for a release")
    cluster.send(shared.fetch("a", 3, max_wait_ms=500), V)
    cluster.ask(shared.fetch("b", LAST), V, on="b")
    cluster.receive(title="the fetch that waited for a session to end")


def several_partitions_take_turns(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, partitions=3)
    for partition in range(3):
        fill(cluster, shared.topic, b"a", b"b", b"c", partition=partition)
    cluster.ask(shared.fetch("a", FIRST, 0, 1, 2, max_records=3), V)
    cluster.ask(shared.fetch("a", 1, max_records=3), V)
    cluster.ask(shared.fetch("a", 2, max_records=3), V)
    cluster.ask(shared.fetch("a", 3, max_records=3), V)
    acks = {0: [(0, 2, [ACCEPT])], 2: [(0, 2, [ACCEPT])], 1: [(0, 2, [ACCEPT])]}
    cluster.ask(shared.fetch("a", 4, acks=acks), V)


def a_closed_connection_releases_its_records(cluster: ScenarioCluster) -> None:
    shared = shared_topic(cluster, 3)
    cluster.ask(shared.fetch("a", FIRST, 0), V, on="other")
    cluster.send(shared.fetch("b", FIRST, 0, max_wait_ms=500), V)
    cluster.disconnect("other")
    cluster.receive(title="the fetch that waited for the other to go")
    cluster.ask(shared.fetch("a", 1), V)
    shared.note_state()


def states_have_two_epochs(cluster: ScenarioCluster) -> None:
    """Send requests between brokers, which ApiVersions lists as well."""
    topic_id = create_topic(cluster, f"{cluster.name}-topic", 2)
    ready_share_coordinator(cluster, cluster.name, topic_id)
    group = cluster.name
    cluster.call_until(
        initialize(group, topic_id, 2, epoch=3, start=5),
        0,
        lambda answer: all(row.error_code == 0 for row in answer.results[0].partitions),
    )
    cluster.ask(initialize(group, topic_id, 1, epoch=2), 0)
    cluster.ask(initialize(group, topic_id, 4, epoch=4, start=-1), 0)
    cluster.ask(initialize("", topic_id, 1), 0)
    for leader_epoch in (2, 1, 2, -1, 7):
        cluster.ask(read_state(group, topic_id, 0, leader_epoch), 0)
        cluster.ask(summary(group, topic_id, 0), 1)
        cluster.ask(summary(group, topic_id, 0), 0)
    writes: list[tuple[int, int, int, int, list[tuple[int, int, int, int]]]] = [
        (4, 7, 10, 3, [(10, 14, 2, 1), (15, 15, 0, 2)]),
        (4, 7, -1, 5, [(12, 20, 0, 2), (16, 17, 4, 5)]),
        (3, 7, 10, 0, []),
        (4, 6, 10, 0, []),
        (-1, -1, 16, 1, [(30, 40, 2, 1), (41, 50, 2, 1)]),
    ]
    for version in (1, 0):
        for write in writes:
            cluster.ask(write_state(group, topic_id, 0, *write), version)
            cluster.ask(read_state(group, topic_id, 0), 0)
            cluster.ask(summary(group, topic_id, 0), 1)
    cluster.ask(write_state(group, topic_id, -1, 4, 7, 1, 0, []), 1)
    cluster.ask(write_state(group, UNKNOWN_ID, 0, 4, 7, 1, 0, []), 1)
    cluster.ask(write_state("unknown", topic_id, 0, 4, 7, 1, 0, []), 1)
    cluster.ask(read_state("unknown", topic_id, 0), 0)
    cluster.ask(read_state(group, UNKNOWN_ID, 0), 0)
    cluster.ask(read_state(group, topic_id, -1), 0)
    cluster.ask(summary("unknown", topic_id, 0), 1)
    cluster.ask(summary(group, UNKNOWN_ID, 0), 1)
    for deleted in ((group, topic_id, 0), (group, topic_id, 0), (group, topic_id, 9)):
        cluster.ask(delete_state(*deleted), 0)
    cluster.ask(delete_state(group, UNKNOWN_ID, 0), 0)
    cluster.ask(read_state(group, topic_id, 0), 0)
    cluster.ask(summary(group, topic_id, 1), 1)


def write_state(  # noqa: PLR0917 - the fields of the request
    group: str,
    topic_id: bytes,
    partition: int,
    state_epoch: int,
    leader_epoch: int,
    start_offset: int,
    complete: int,
    batches: list[tuple[int, int, int, int]],
) -> WriteShareGroupStateRequest:
    """Make a request to add to the state of a partition."""
    row = WriteShareGroupStateRequest.PartitionData(
        partition=partition,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=complete,
        state_batches=[
            WriteShareGroupStateRequest.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
            )
            for first, last, state, count in batches
        ],
    )
    topic = WriteShareGroupStateRequest.WriteStateData(topic_id=topic_id, partitions=[row])
    return WriteShareGroupStateRequest(group_id=group, topics=[topic])


def delete_state(group: str, topic_id: bytes, partition: int) -> DeleteShareGroupStateRequest:
    """Make a request to delete the state of a partition."""
    row = DeleteShareGroupStateRequest.PartitionData(partition=partition)
    topic = DeleteShareGroupStateRequest.DeleteStateData(topic_id=topic_id, partitions=[row])
    return DeleteShareGroupStateRequest(group_id=group, topics=[topic])


SCENARIOS = (
    records_are_acquired_and_acknowledged,
    version_1_has_neither_modes_nor_renewal,
    released_records_are_delivered_again_until_the_limit,
    each_record_may_have_its_own_acknowledgement,
    a_part_of_a_batch_is_acknowledged,
    two_members_share_a_partition,
    a_closed_session_releases_its_records,
    a_restarted_session_retains_its_records,
    sessions_have_epochs,
    requests_are_checked,
    acknowledgements_of_missing_records_are_refused,
    missing_partitions_are_reported,
    a_topic_id_unknown_to_the_session_is_refused,
    a_group_without_share_state_reads_nothing,
    acquired_batches_start_like_those_of_the_log,
    the_record_limit_may_be_exact,
    locks_are_renewed,
    locks_may_not_be_renewed_if_the_group_disables_it,
    acquisition_locks_expire,
    a_group_starts_at_the_configured_offset,
    invalid_sizes_are_answered,
    a_future_timestamp_is_no_start_offset,
    deleted_records_are_skipped,
    a_reinitialized_state_fences_the_leader,
    a_deleted_state_cannot_be_written,
    records_in_flight_are_limited,
    fetches_wait_for_records,
    several_partitions_take_turns,
    a_closed_connection_releases_its_records,
    states_have_two_epochs,
)
