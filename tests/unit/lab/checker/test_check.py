"""Every planted anomaly is found, and regular traffic has none."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.checker import commit_rules, delivery_rules, log_rules
from kafkalite.lab.checker.check import check
from kafkalite.lab.checker.findings import OTHER_COMMIT, Severity
from kafkalite.lab.checker.history import Proof, Range
from kafkalite.protocol._generated.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.lab.checker.expected import PARTITION, Expected
from tests.unit.lab.checker.planted import GROUP, PLANTED
from tests.unit.lab.checker.regular_traffic import run_regular_traffic
from tests.unit.lab.checker.simulation import SimulatedCluster, TestProducer

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.lab.checker.findings import CheckResult, Finding

HISTORIES = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 110


def found_in(cluster: SimulatedCluster) -> list[Expected]:
    """Return the findings above a note."""
    return [
        Expected(each.rule, each.cause, each.records)
        for each in check(cluster.history()).findings
        if each.severity is not Severity.NOTE
    ]


def notes_of(result: CheckResult, rule: str) -> list[Finding]:
    """Return the findings of a rule, which are notes."""
    findings = [*result.of_rule(rule)]
    assert {each.severity for each in findings} <= {Severity.NOTE}
    return findings


@pytest.mark.parametrize("plant", PLANTED, ids=[each.__name__ for each in PLANTED])
def test_a_planted_anomaly_is_found(
    plant: Callable[[SimulatedCluster, Random], Expected],
) -> None:
    cluster = SimulatedCluster()
    expected = plant(cluster, Random(7))  # noqa: S311 - repeatable
    assert found_in(cluster) == [expected]


@pytest.mark.timeout(7_200)  # in the long profile
def test_anomalies_are_found_among_regular_traffic_and_no_others() -> None:
    """Each history has regular traffic, and two of three have an anomaly before or after it."""
    for seed in range(HISTORIES):
        random, cluster = Random(seed), SimulatedCluster()  # noqa: S311 - repeatable
        number = seed // 3 * 2 + seed % 3 - 1  # consecutive, so that each kind has its turn
        plant = PLANTED[number % len(PLANTED)] if seed % 3 else None
        is_before = random.random() < 0.5
        expected = [plant(cluster, random)] if plant is not None and is_before else []
        run_regular_traffic(cluster, random, steps=4)
        if plant is not None and not is_before:
            expected = [plant(cluster, random)]
        assert found_in(cluster) == expected, f"seed {seed}"


def test_each_finding_names_requests_and_clients() -> None:
    for plant in PLANTED:
        cluster = SimulatedCluster()
        plant(cluster, Random(1))  # noqa: S311 - repeatable
        (finding, *_) = check(cluster.history()).findings
        assert finding.proofs
        assert all(each.file == "orders.pcapng" for each in finding.proofs)
        assert finding.cause == delivery_rules.MISSING_IN_LOG or finding.client is not None


def test_findings_about_offsets_that_follow_each_other_are_one() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    reader = cluster.peer("reader", "r-1")
    cluster.heartbeat(reader, GROUP)
    cluster.produce(producer, PARTITION)
    cluster.fetch(reader, PARTITION, 0)
    for _ in range(3):
        cluster.produce(producer, PARTITION, 2)
    cluster.commit(reader, GROUP, PARTITION, 7)
    (finding,) = check(cluster.history()).violations
    assert finding.offsets == Range(1, 6)
    assert finding.records == 6
    assert finding.text == (
        f"group {GROUP} never got offsets 1 to 6 of orders-{PARTITION}, acknowledged to writer at "
        "10.0.0.1: reader at 10.0.0.1 committed offset 7"
    )
    assert len(finding.proofs) == 4


def test_records_that_a_dead_member_did_not_commit_are_delivered_twice() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    cluster.produce(producer, PARTITION, 5)
    for name in ("first", "second"):
        reader = cluster.peer(name, name)
        cluster.heartbeat(reader, GROUP)
        cluster.fetch(reader, PARTITION, 0)
    (finding,) = notes_of(check(cluster.history()), delivery_rules.DELIVERED_TWICE)
    assert (finding.cause, finding.records) == (delivery_rules.REBALANCE, 5)
    assert finding.text == (
        f"group {GROUP} got offsets 0 to 4 of orders-{PARTITION} again: second at 10.0.0.1 fetched "
        "the same records after first at 10.0.0.1"
    )


def test_one_record_is_one_offset() -> None:
    """A text that names the offset again is not changed when findings are joined."""
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    reader = cluster.peer("reader", "r-1")
    cluster.heartbeat(reader, GROUP)
    cluster.produce(producer, PARTITION)
    cluster.look_up(reader, PARTITION, -2, 0)
    for _ in range(2):
        cluster.fetch(reader, PARTITION, 0)
        cluster.look_up(reader, PARTITION, -2, 0)
    (finding,) = notes_of(check(cluster.history()), delivery_rules.DELIVERED_TWICE)
    again = "reader at 10.0.0.1 looked up offset 0 and fetched from there"
    assert finding.text == f"group {GROUP} got offset 0 of orders-{PARTITION} again: {again}"
    cluster.produce(producer, PARTITION)
    cluster.fetch(reader, PARTITION, 0)
    *_, finding = notes_of(check(cluster.history()), delivery_rules.DELIVERED_TWICE)
    assert finding.text == f"group {GROUP} got offset 0 of orders-{PARTITION} again: {again}"


def test_each_delivery_is_compared_with_the_one_before() -> None:
    """The proof is the request that got these records, not the latest one of the other member."""
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    readers = [cluster.peer(f"reader {number}", f"r-{number}") for number in range(3)]
    cluster.produce(producer, PARTITION, 5)
    for reader in readers:
        cluster.heartbeat(reader, GROUP)
        position = cluster.fetch(reader, PARTITION, 0)
        cluster.produce(producer, 0)
        cluster.fetch(reader, 0, cluster.ends[0] - 1)
    cluster.produce(producer, PARTITION)
    cluster.fetch(readers[-1], PARTITION, position)
    findings = notes_of(check(cluster.history()), delivery_rules.DELIVERED_TWICE)
    assert [each.offsets for each in findings] == [Range(0, 4)] * 2
    connections = [
        [proof.connection for proof in each.proofs if isinstance(proof, Proof)] for each in findings
    ]
    assert connections == [
        ["reader 0 > node", "reader 1 > node"], ["reader 1 > node", "reader 2 > node"],
    ]  # fmt: skip


def test_the_consumer_skips_the_records_of_a_batch_before_its_position() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    reader = cluster.peer("reader", "r-1")
    cluster.heartbeat(reader, GROUP)
    cluster.produce(producer, PARTITION, 5)
    cluster.fetch(reader, PARTITION, 0)
    cluster.fetch(reader, PARTITION, 3)  # the answer begins with offset 0
    (finding,) = notes_of(check(cluster.history()), delivery_rules.DELIVERED_TWICE)
    assert finding.offsets == Range(3, 4)


def test_acknowledged_records_without_a_fetch_are_unread() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    cluster.produce(producer, PARTITION, 5)
    cluster.fetch(cluster.peer("reader"), PARTITION, 0)
    for _ in range(10):
        cluster.produce(producer, PARTITION, 5)
    (finding,) = notes_of(check(cluster.history()), delivery_rules.UNREAD)
    assert (finding.offsets, finding.records) == (Range(5, 54), 50)


def test_an_administrator_can_move_a_group() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    reader = cluster.peer("reader", "r-1")
    cluster.heartbeat(reader, GROUP)
    cluster.produce(producer, PARTITION, 1)
    cluster.commit(reader, GROUP, PARTITION, cluster.fetch(reader, PARTITION, 0))
    cluster.produce(producer, PARTITION, 4)
    administrator = cluster.peer("administrator")
    cluster.commit(administrator, GROUP, PARTITION, 5)
    cluster.commit(administrator, GROUP, PARTITION, 0)
    result = check(cluster.history())
    (skipped,) = notes_of(result, delivery_rules.LOST)
    (moved,) = notes_of(result, commit_rules.REGRESSION)
    assert skipped.cause == delivery_rules.SKIPPED_BY_ADMINISTRATOR
    assert moved.cause == commit_rules.ADMINISTRATOR


def test_a_committed_offset_can_expire() -> None:
    cluster = SimulatedCluster()
    reader = cluster.peer("reader", "r-1")
    cluster.commit(reader, GROUP, PARTITION, 10)
    cluster.fetch_offset(reader, GROUP, PARTITION, -1)
    (finding,) = notes_of(check(cluster.history()), commit_rules.CONTRADICTED)
    assert finding.cause == commit_rules.EXPIRED


def test_a_commit_in_flight_decides_nothing() -> None:
    cluster = SimulatedCluster()
    reader = cluster.peer("reader", "r-1")
    cluster.commit(reader, GROUP, PARTITION, 10)
    cluster.commit(reader, GROUP, PARTITION, 20, is_answered=False)
    cluster.fetch_offset(reader, GROUP, PARTITION, 20)
    assert found_in(cluster) == []


def test_a_commit_of_a_transaction_takes_effect_when_it_ends() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"), "payments")
    reader = cluster.peer("reader", "r-1")
    cluster.commit(reader, GROUP, PARTITION, 10)
    cluster.commit(reader, GROUP, PARTITION, 20, producer=producer)
    cluster.fetch_offset(reader, GROUP, PARTITION, 10)
    cluster.end(producer, is_commit=True)
    cluster.fetch_offset(reader, GROUP, PARTITION, 10)
    assert found_in(cluster) == [Expected(commit_rules.CONTRADICTED, commit_rules.LOST_COMMIT, 10)]


def test_compaction_removes_records() -> None:
    cluster = SimulatedCluster()
    cluster.create_topic(cluster.peer("administrator"), cleanup_policy="compact")
    producer = cluster.producer(cluster.peer("writer"))
    reader = cluster.peer("reader", "r-1")
    cluster.heartbeat(reader, GROUP)
    offsets = [cluster.produce(producer, PARTITION) for _ in range(3)]
    cluster.fetch(reader, PARTITION, 0, skipped=frozenset(offsets[1:2]))
    assert found_in(cluster) == []


def test_equal_batches_of_a_producer_without_idempotence_are_no_duplicates() -> None:
    """Both were acknowledged, so the application sent the same records twice."""
    cluster = SimulatedCluster()
    producer = TestProducer(cluster.peer("writer"))
    batch = cluster.batch(producer, PARTITION, 1)
    for _ in range(2):
        cluster.send(producer, PARTITION, batch, cluster.append(PARTITION, batch))
    assert check(cluster.history()).of_rule(log_rules.DUPLICATE) == ()


def test_equal_batches_among_others_are_not_reordered() -> None:
    cluster = SimulatedCluster()
    producer = TestProducer(cluster.peer("writer"))
    first, second = (cluster.batch(producer, PARTITION, 1) for _ in range(2))
    for batch in (first, second, first):
        cluster.send(producer, PARTITION, batch, cluster.append(PARTITION, batch))
    assert found_in(cluster) == []


def test_a_producer_without_acknowledgements_does_not_send_batches_again() -> None:
    cluster = SimulatedCluster()
    producer = TestProducer(cluster.peer("writer"))
    batch = cluster.batch(producer, PARTITION, 1)
    for _ in range(2):
        cluster.append(PARTITION, batch)
        cluster.send(producer, PARTITION, batch, None, is_answered=False, acks=0)
    cluster.fetch(cluster.peer("reader"), PARTITION, 0)
    assert found_in(cluster) == []


@pytest.mark.parametrize("has_left", [False, True])
def test_a_reader_without_a_group_may_have_the_id_of_a_member(*, has_left: bool) -> None:
    """It reads the log from its beginning, and then only its end."""
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    cluster.produce(producer, PARTITION, 5)
    reader, other = cluster.peer("reader", "r-1"), cluster.peer("reader")
    cluster.heartbeat(reader, GROUP)
    position = cluster.fetch(reader, PARTITION, 0)
    cluster.commit(reader, GROUP, PARTITION, position)
    if has_left:
        cluster.leave(reader, GROUP)
    cluster.fetch(other, PARTITION, 0)
    cluster.produce(producer, PARTITION, 5)
    end = cluster.ends[PARTITION]
    cluster.look_up(other, PARTITION, -1, end)
    if not has_left:
        cluster.fetch(reader, PARTITION, position)
    cluster.produce(producer, PARTITION)
    cluster.fetch(other, PARTITION, end)
    assert found_in(cluster) == []


def test_a_member_can_begin_again_at_a_lower_offset() -> None:
    cluster = SimulatedCluster()
    cluster.commit(cluster.peer("first", "f-1"), GROUP, PARTITION, 10)
    cluster.commit(cluster.peer("second", "s-1"), GROUP, PARTITION, 4)
    assert found_in(cluster) == [Expected(commit_rules.REGRESSION, commit_rules.MOVED_BACK, 6)]


def test_a_member_may_join_on_a_connection_of_its_own() -> None:
    """franz-go sends JoinGroup on another connection than heartbeats and commits."""
    cluster = SimulatedCluster()
    reader = cluster.peer("reader", "r-1")
    request = JoinGroupRequest(group_id=GROUP, member_id="r-1")
    response = JoinGroupResponse(member_id="r-1", generation_id=1)
    cluster.heartbeat(reader, GROUP)
    cluster.request(cluster.reconnect(reader), ApiKey.JOIN_GROUP, request, response)
    for offset in (10, 4):
        cluster.commit(reader, GROUP, PARTITION, offset)
    assert found_in(cluster) == [Expected(commit_rules.REGRESSION, commit_rules.MOVED_BACK, 6)]


def test_a_group_without_an_offset_begins_again() -> None:
    cluster = SimulatedCluster()
    for number in range(2):
        reader = cluster.peer(f"reader {number}", f"r-{number}")
        cluster.fetch_offset(reader, GROUP, PARTITION, -1)
        cluster.commit(reader, GROUP, PARTITION, 5 - number)
    assert found_in(cluster) == []


def test_a_member_may_commit_after_it_got_a_partition_again() -> None:
    """Java commits positions when it closes, also if it fetched nothing since."""
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    first, second = cluster.peer("first", "f-1"), cluster.peer("second", "s-1")
    position = 0
    for reader in (first, second):
        cluster.heartbeat(reader, GROUP)
        cluster.produce(producer, PARTITION)
        position = cluster.fetch(reader, PARTITION, position)
        cluster.commit(reader, GROUP, PARTITION, position)
    cluster.fetch_offset(first, GROUP, PARTITION)
    cluster.commit(first, GROUP, PARTITION, position)
    assert found_in(cluster) == []


def test_a_zombie_that_still_fetches_is_not_the_owner() -> None:
    """A static member was replaced, and fetches until its next heartbeat is refused."""
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    old, new = cluster.peer("old", "instance-1"), cluster.peer("new", "instance-2")
    cluster.produce(producer, PARTITION)
    for reader in (old, new):
        cluster.heartbeat(reader, GROUP)
        cluster.fetch_offset(reader, GROUP, PARTITION)
    for reader in (new, old):
        position = cluster.fetch(reader, PARTITION, 0)
    cluster.commit(new, GROUP, PARTITION, position)
    assert found_in(cluster) == []
    cluster.fetch(new, PARTITION, 0)
    cluster.commit(old, GROUP, PARTITION, position)
    zombie = Expected(commit_rules.ZOMBIE_COMMIT, commit_rules.EARLIER_OWNER, 0)
    assert zombie in found_in(cluster)


def test_a_request_that_does_not_wait_may_get_the_offset_before_a_transaction() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"), "payments")
    reader = cluster.peer("reader", "r-1")
    cluster.commit(reader, GROUP, PARTITION, 10)
    cluster.commit(reader, GROUP, PARTITION, 20, producer=producer)
    cluster.end(producer, is_commit=True)
    cluster.fetch_offset(cluster.peer("admin"), GROUP, PARTITION, 10, is_stable=False)
    assert found_in(cluster) == []


def test_a_commit_that_the_history_lacks_is_a_note() -> None:
    """Other members of the group are on hosts whose traffic was not captured."""
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    cluster.produce(producer, PARTITION, 20)
    reader = cluster.peer("reader", "r-1")
    cluster.heartbeat(reader, GROUP)
    cluster.commit(reader, GROUP, PARTITION, cluster.fetch(reader, PARTITION, 0))
    for _ in range(2):
        cluster.produce(producer, PARTITION, 5)
    cluster.fetch_offset(reader, GROUP, PARTITION, 25)
    cluster.fetch(reader, PARTITION, 25)
    notes = check(cluster.history()).findings
    assert {(each.rule, each.cause, each.severity) for each in notes} == {
        (delivery_rules.LOST, OTHER_COMMIT, Severity.NOTE),
        (commit_rules.CONTRADICTED, OTHER_COMMIT, Severity.NOTE),
        (delivery_rules.UNREAD, "not fetched", Severity.NOTE),
    }


def test_a_marker_that_was_not_fetched_is_not_that_of_the_next_transaction() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"), "payments")
    for partition in (0, PARTITION):
        cluster.produce(producer, partition)
    cluster.end(producer, is_commit=True)
    for partition in (0, PARTITION):
        cluster.mark(producer, partition, is_commit=True)
    end = cluster.ends[PARTITION]
    cluster.produce(producer, PARTITION)
    cluster.end(producer, is_commit=False)
    cluster.mark(producer, PARTITION, is_commit=False)
    cluster.fetch(cluster.peer("first reader"), 0, 0)
    cluster.fetch(cluster.peer("second reader"), PARTITION, end)
    assert found_in(cluster) == []


def test_a_topic_with_another_id_is_another_topic() -> None:
    """A client that the history lacks deleted the topic and created it again."""
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    first_id, second_id = b"1" * 16, b"2" * 16
    cluster.describe_topic(producer.peer, first_id)
    cluster.produce(producer, PARTITION)
    cluster.logs.clear()
    cluster.ends.clear()
    producer = cluster.producer(producer.peer)
    for topic_id in (second_id, first_id):  # the last answer is outdated
        cluster.describe_topic(producer.peer, topic_id)
        cluster.produce(producer, PARTITION)
    (write, *others) = cluster.history().writes
    assert (write.partition.incarnation, {each.partition.incarnation for each in others}) == (
        0,
        {1},
    )
    assert check(cluster.history()).violations == ()


def test_a_topic_can_become_compacted() -> None:
    cluster = SimulatedCluster()
    cluster.alter_topic(cluster.peer("administrator"), "cleanup.policy", "compact,delete")
    producer = cluster.producer(cluster.peer("writer"))
    reader = cluster.peer("reader", "r-1")
    cluster.heartbeat(reader, GROUP)
    offsets = [cluster.produce(producer, PARTITION) for _ in range(3)]
    cluster.fetch(reader, PARTITION, 0, skipped=frozenset(offsets[1:2]))
    assert found_in(cluster) == []


def test_a_commit_of_the_start_of_a_new_topic_is_none_of_the_deleted_topic() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    reader = cluster.peer("reader", "r-1")
    cluster.heartbeat(reader, GROUP)
    cluster.produce(producer, PARTITION)
    cluster.fetch(reader, PARTITION, 0)
    cluster.recreate_topic(cluster.peer("administrator"))
    cluster.commit(reader, GROUP, PARTITION, 0)
    cluster.look_up(reader, PARTITION, -2, 3)
    cluster.commit(reader, GROUP, PARTITION, 3)
    assert found_in(cluster) == []


@pytest.mark.parametrize(
    "error", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
)
def test_a_retry_after_an_error_that_passes_is_not_useless(error: ErrorCode) -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    reader = cluster.peer("reader", "r-1")
    batch = cluster.batch(producer, PARTITION, 1)
    for _ in range(2):
        cluster.send(producer, PARTITION, batch, None, error=error)
        cluster.commit(reader, GROUP, PARTITION, 5, error=error)
    assert found_in(cluster) == []


def test_a_refused_write_of_a_zombie_is_no_finding() -> None:
    cluster = SimulatedCluster()
    old = cluster.producer(cluster.peer("old"), "payments")
    new = cluster.producer(cluster.peer("new"), "payments")
    error = ErrorCode.INVALID_PRODUCER_EPOCH
    cluster.send(old, PARTITION, cluster.batch(old, PARTITION, 1), None, error=error)
    cluster.produce(new, PARTITION)
    assert found_in(cluster) == []


def test_commits_of_a_transaction_that_ends_without_a_request_have_no_effect() -> None:
    """The next instance makes the coordinator abort it, and ends its own transaction."""
    cluster = SimulatedCluster()
    first, second = cluster.peer("first", "f-1"), cluster.peer("second", "s-1")
    killed = cluster.producer(first, "first")
    cluster.commit(first, GROUP, PARTITION, 5, producer=killed)
    other = cluster.producer(second, "second")
    cluster.commit(second, GROUP, PARTITION, 10, producer=other)
    cluster.end(other, is_commit=True)
    restarted = replace(killed, peer=cluster.reconnect(first), epoch=1)
    cluster.start(restarted)
    cluster.produce(restarted, PARTITION)
    cluster.end(restarted, is_commit=True)
    cluster.fetch_offset(second, GROUP, PARTITION, 10)
    assert found_in(cluster) == []


@pytest.mark.parametrize("name", ["payments", "administrator"])
def test_a_producer_that_starts_after_its_id_was_fenced_on_a_newer_connection(name: str) -> None:
    """Two instances start at the same time, or an administrator fences the one before."""
    cluster = SimulatedCluster()
    own = cluster.peer("payments")
    fencing = cluster.producer(cluster.peer(name), "payments")
    producer = replace(fencing, peer=own, epoch=1)
    cluster.start(producer)
    cluster.add_partition(producer, PARTITION)
    cluster.produce(producer, PARTITION)
    cluster.end(producer, is_commit=True)
    assert found_in(cluster) == []


def test_a_consumer_without_a_group_has_the_client_id_of_a_member() -> None:
    """A member asks for the committed offset of a partition before it fetches from there."""
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    member = cluster.peer("rdkafka", "m-1")
    cluster.heartbeat(member, GROUP)
    cluster.fetch_offset(member, GROUP, 1)
    for end in (3, 6):
        cluster.produce(producer, PARTITION, 3)
        other = cluster.peer("rdkafka")
        cluster.look_up(other, PARTITION, -1, end)
        cluster.produce(producer, PARTITION)
        cluster.fetch(other, PARTITION, end)
        cluster.heartbeat(member, GROUP)
    assert found_in(cluster) == []


def test_records_that_an_administrator_deleted_are_not_lost_by_the_consumer() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    reader = cluster.peer("reader", "r-1")
    cluster.heartbeat(reader, GROUP)
    cluster.produce(producer, PARTITION, 5)
    cluster.fetch(reader, PARTITION, 0)
    cluster.produce(producer, PARTITION, 5)
    cluster.delete_records(cluster.peer("administrator"), PARTITION, 10)
    cluster.look_up(reader, PARTITION, -2, 10)
    cluster.produce(producer, PARTITION, 5)
    cluster.fetch(reader, PARTITION, 10)
    result = check(cluster.history())
    (finding,) = notes_of(result, delivery_rules.LOST)
    assert (finding.cause, finding.offsets) == (delivery_rules.DELETED, Range(5, 9))
    assert finding.text == (
        f"group {GROUP} never got offsets 5 to 9 of orders-{PARTITION}, acknowledged to writer at "
        "10.0.0.1: administrator at 10.0.0.1 deleted what is before offset 10"
    )


def test_a_producer_commits_on_an_older_connection_than_that_of_its_consumer() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("producer"), "payments")
    consumer = cluster.peer("consumer", "c-1")
    cluster.heartbeat(consumer, GROUP)
    for offset in (5, 3):
        member = replace(producer.peer, member=consumer.member)
        cluster.commit(member, GROUP, PARTITION, offset, producer=producer)
        cluster.end(producer, is_commit=True)
    assert found_in(cluster) == [Expected(commit_rules.REGRESSION, commit_rules.MOVED_BACK, 2)]


def test_members_with_one_client_id_are_not_distinguished() -> None:
    cluster = SimulatedCluster()
    cluster.produce(cluster.producer(cluster.peer("writer")), PARTITION, 5)
    members = [cluster.peer("reader", name) for name in ("r-1", "r-2")]
    for position in (0, 0, 5):
        for each in members:
            cluster.heartbeat(each, GROUP)
            cluster.fetch(each, PARTITION, position)
    found = notes_of(check(cluster.history()), delivery_rules.DELIVERED_TWICE)
    assert {each.cause for each in found} == {delivery_rules.UNCLEAR_MEMBER}
    assert found[0].text == (
        f"group {GROUP} got offsets 0 to 4 of orders-{PARTITION} again: one of the members that "
        "are reader at 10.0.0.1 had fetched the same records before"
    )


def test_a_refused_start_of_another_instance_gives_no_request_up() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("payments"), "payments")
    cluster.produce(producer, PARTITION)
    cluster.request(
        cluster.peer("payments"),
        ApiKey.INIT_PRODUCER_ID,
        InitProducerIdRequest(transactional_id="payments"),
        InitProducerIdResponse(error_code=int(ErrorCode.CONCURRENT_TRANSACTIONS)),
    )
    cluster.end(producer, is_commit=True)
    assert found_in(cluster) == []


def test_what_the_history_does_not_have_is_counted() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    cluster.produce(producer, PARTITION)
    cluster.fetch(cluster.peer("alone"), PARTITION, 0)
    cluster.send(producer, PARTITION, b"\0" * 70, None, is_answered=False)
    cluster.send(producer, PARTITION, cluster.batch(producer, 0, 1), None, is_answered=False)
    cluster.request(cluster.peer("odd"), ApiKey.PRODUCE, None, None)
    reasons = {each.reason: each.count for each in check(cluster.history()).undecided}
    assert reasons == {
        "answers with record batches that are damaged or have format 0 or 1": 1,
        "batches delivered to clients that are in no group, or in several": 1,
        "requests that cannot be decoded": 1,
        "writes without an answer": 1,
    }


def test_the_result_counts_records_and_becomes_json() -> None:
    cluster = SimulatedCluster()
    producer = cluster.producer(cluster.peer("writer"))
    cluster.produce(producer, PARTITION, 3)
    cluster.fetch(cluster.peer("reader"), PARTITION, 1)
    result = check(cluster.history()).as_json()
    assert (result["requests"], result["acknowledged"], result["delivered"]) == (3, 3, 2)
    (finding,) = result["findings"]
    assert finding["commands"] == ["kafkalite show orders.pcapng --offset 0"]
    assert finding["first_offset"] == finding["last_offset"] == 0
    assert finding["proofs"] == [
        {
            "file": "orders.pcapng",
            "offset": 0,
            "connection": "writer > node",
            "request": 1,
            "correlation_id": None,
        }
    ]
