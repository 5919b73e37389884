"""Rules about share groups, beyond the planted anomalies: what is a note, or undecided."""

from __future__ import annotations

from kafkalite.lab.checker import share_rules
from kafkalite.lab.checker.check import check
from kafkalite.lab.checker.findings import Severity
from kafkalite.shares.acknowledgement import AcknowledgeType
from tests.unit.lab.checker.expected import PARTITION
from tests.unit.lab.checker.share_simulation import SimulatedShareGroup
from tests.unit.lab.checker.simulation import Peer, SimulatedCluster


def group_of(cluster: SimulatedCluster, records: int) -> tuple[SimulatedShareGroup, Peer, Peer]:
    """Return a share group with two members, and records that it has not delivered."""
    cluster.produce(cluster.producer(cluster.peer("writer")), PARTITION, records)
    group = SimulatedShareGroup(cluster, "sharers", PARTITION)
    members = cluster.peer("a", "a"), cluster.peer("b", "b")
    for member in members:
        group.join(member)
    return group, *members


def test_released_records_and_those_of_ended_locks_are_delivered_again() -> None:
    cluster = SimulatedCluster()
    group, a, b = group_of(cluster, 4)
    group.fetch(a)
    group.acknowledge(a, [0, 1], AcknowledgeType.RELEASE)
    group.expire([2, 3])
    group.fetch(b)
    findings = check(cluster.history()).findings
    assert [(each.rule, each.cause, each.offsets) for each in findings] == [
        (share_rules.REDELIVERED, share_rules.RELEASED, (0, 1)),
        (share_rules.REDELIVERED, share_rules.LOCK_ENDED, (2, 3)),
    ]
    assert {each.severity for each in findings} == {Severity.NOTE}
    assert findings[0].text == (
        f"b at 10.0.0.1 got offsets 0 to 1 of orders-{PARTITION} in share group sharers after a at "
        "10.0.0.1, because the records were released"
    )


def test_a_reset_group_delivers_accepted_records_again() -> None:
    cluster = SimulatedCluster()
    group, a, b = group_of(cluster, 2)
    group.acknowledge(a, group.fetch(a))
    group.reset(cluster.peer("administrator"))
    group.fetch(b)
    assert check(cluster.history()).findings == ()


def test_an_answer_that_is_missing_may_have_the_records() -> None:
    cluster = SimulatedCluster()
    group, a, b = group_of(cluster, 1)
    group.fetch(a)
    producer = cluster.producer(cluster.peer("writer"))
    cluster.produce(producer, PARTITION)
    group.fetch(b, is_answered=False)
    cluster.produce(producer, PARTITION)
    group.fetch(a)
    assert check(cluster.history()).violations == ()


def test_deleted_records_are_not_skipped_by_a_share_group() -> None:
    cluster = SimulatedCluster()
    group, a, _ = group_of(cluster, 1)
    group.acknowledge(a, group.fetch(a))
    producer = cluster.producer(cluster.peer("writer"))
    cluster.produce(producer, PARTITION, 3)
    cluster.delete_records(cluster.peer("administrator"), PARTITION, cluster.ends[PARTITION])
    group.fetch(a, [cluster.produce(producer, PARTITION)])
    assert check(cluster.history()).violations == ()


def test_without_a_known_limit_many_deliveries_are_a_warning() -> None:
    cluster = SimulatedCluster()
    group, a, _ = group_of(cluster, 1)
    for _ in range(share_rules.DEFAULT_LIMIT + 1):
        group.expire(group.fetch(a))
    (finding,) = check(cluster.history()).of_rule(share_rules.TOO_MANY_DELIVERIES)
    assert (finding.severity, finding.cause) == (Severity.WARNING, share_rules.OVER_DEFAULT)
    assert finding.text.endswith("as delivery number 6, but the default is 5 deliveries")


def test_rejected_records_are_a_note() -> None:
    cluster = SimulatedCluster()
    group, a, _ = group_of(cluster, 3)
    group.acknowledge(a, group.fetch(a)[1:], AcknowledgeType.REJECT)
    (finding,) = check(cluster.history()).findings
    assert (finding.rule, finding.cause, finding.records) == (
        share_rules.NOT_PROCESSED, share_rules.REJECTED, 2,
    )  # fmt: skip
