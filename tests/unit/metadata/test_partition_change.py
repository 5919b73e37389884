"""Changes of one partition: who leads, who is in sync, who is eligible (KIP-966)."""

from __future__ import annotations

import pytest

from kafkalite.metadata.image import NO_LEADER, PartitionImage
from kafkalite.metadata.partition_change import (
    IS_RECOVERED,
    IS_RECOVERING,
    UNCHANGED_LEADER,
    Election,
    LeadershipRules,
    PartitionChange,
    Reassignment,
)
from kafkalite.protocol._generated.records.partition_change import PartitionChangeRecord

TOPIC_ID = b"t" * 16
WITH_ELR = LeadershipRules(min_isr=2, uses_eligible_replicas=True)
WITHOUT_ELR = LeadershipRules(min_isr=2)


def partition(
    leader: int = 1,
    isr: tuple[int, ...] = (1, 2, 3),
    *,
    elr: tuple[int, ...] = (),
    last_known_elr: tuple[int, ...] = (),
    is_recovering: bool = False,
) -> PartitionImage:
    return PartitionImage(
        index=0,
        leader=leader,
        leader_epoch=5,
        partition_epoch=7,
        replicas=(1, 2, 3),
        isr=isr,
        elr=elr,
        last_known_elr=last_known_elr,
        is_recovering=is_recovering,
    )


def change(
    image: PartitionImage,
    *,
    rules: LeadershipRules = WITH_ELR,
    active: tuple[int, ...] = (1, 2, 3),
    election: Election | None = None,
    isr: tuple[int, ...] | None = None,
    reassignment: Reassignment | None = None,
) -> PartitionChangeRecord | None:
    return PartitionChange(
        image,
        rules,
        lambda node_id: node_id in active,
        election=election,
        isr=isr,
        reassignment=reassignment,
    ).record(TOPIC_ID)


def record(**fields: object) -> PartitionChangeRecord:
    made = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def test_a_valid_leader_stays() -> None:
    for election in (None, Election.ONLINE, Election.PREFERRED, Election.UNCLEAN):
        assert change(partition(), election=election) is None
    assert change(partition(leader=2), election=Election.ONLINE) is None


def test_a_preferred_election_elects_the_first_replica_if_it_is_in_sync() -> None:
    assert change(partition(leader=2), election=Election.PREFERRED) == record(leader=1)
    assert change(partition(2, (2, 3)), election=Election.PREFERRED) is None
    assert change(partition(leader=2), election=Election.PREFERRED, active=(2, 3)) is None


def test_the_first_active_replica_in_sync_replaces_a_leader() -> None:
    assert change(partition(), active=(2, 3)) == record(leader=2)
    assert change(partition(1, (1, 3)), active=(2, 3)) == record(leader=3)


def test_a_follower_leaves_the_isr_without_an_election() -> None:
    assert change(partition(), isr=(1, 3)) == record(isr=[1, 3])


def test_the_partition_has_no_leader_without_a_candidate() -> None:
    assert change(partition(1, (1,)), rules=WITHOUT_ELR, active=(2, 3)) == record(leader=NO_LEADER)


# Eligible leader replicas


def test_replicas_that_leave_an_isr_below_its_minimum_stay_eligible() -> None:
    assert change(partition(1, (1, 2)), isr=(1,)) == record(isr=[1], eligible_leader_replicas=[2])
    assert change(partition(1, (1, 2)), rules=WITHOUT_ELR, isr=(1,)) == record(isr=[1])


def test_an_isr_of_the_minimum_size_ends_eligibility() -> None:
    assert change(partition(1, (1,), elr=(2,)), isr=(1, 3)) == record(
        isr=[1, 3], eligible_leader_replicas=[]
    )


def test_the_last_replica_of_an_isr_stays_eligible_and_is_the_last_known_leader() -> None:
    found = change(partition(1, (1,), elr=(2,)), active=(3,), isr=())
    assert found == record(
        leader=NO_LEADER, isr=[], eligible_leader_replicas=[2, 1], last_known_elr=[1]
    )


def test_an_eligible_replica_becomes_the_leader_cleanly() -> None:
    image = partition(NO_LEADER, (), elr=(2, 1), last_known_elr=(1,))
    assert change(image, active=(2, 3)) == record(
        leader=2, isr=[2], eligible_leader_replicas=[1], last_known_elr=[]
    )
    assert change(image, active=(3,)) is None


def test_without_eligible_replicas_the_last_known_leader_is_elected_uncleanly() -> None:
    image = partition(NO_LEADER, (), last_known_elr=(1,))
    assert change(image) == record(
        leader=1, isr=[1], leader_recovery_state=IS_RECOVERING, last_known_elr=[]
    )
    assert change(image, active=(2, 3)) is None


# Unclean elections


@pytest.mark.parametrize("by", ["request", "topic"])
def test_an_unclean_election_elects_any_active_replica_alone_into_the_isr(by: str) -> None:
    rules = WITHOUT_ELR._replace(allows_unclean_election=by == "topic")
    election = Election.UNCLEAN if by == "request" else None
    found = change(partition(1, (1,)), rules=rules, election=election, active=(2, 3))
    assert found == record(leader=2, isr=[2], leader_recovery_state=IS_RECOVERING)


def test_an_unclean_election_prefers_a_replica_in_sync() -> None:
    found = change(partition(1, (1, 3)), election=Election.UNCLEAN, active=(2, 3))
    assert found == record(leader=3)


def test_an_unclean_election_ends_all_eligibility() -> None:
    image = partition(NO_LEADER, (), elr=(1,), last_known_elr=(1,))
    assert change(image, election=Election.UNCLEAN, active=(3,)) == record(
        leader=3,
        isr=[3],
        leader_recovery_state=IS_RECOVERING,
        eligible_leader_replicas=[],
        last_known_elr=[],
    )


def test_a_recovering_partition_stays_so_in_another_unclean_election() -> None:
    image = partition(1, (1,), is_recovering=True)
    found = change(image, rules=WITHOUT_ELR, election=Election.UNCLEAN, active=(2,))
    assert found == record(leader=2, isr=[2])


# Reassignments


def test_a_reassignment_has_the_target_first_and_the_removed_replicas_last() -> None:
    assert Reassignment.between((1, 2, 3), (3, 4)) == Reassignment(
        replicas=(3, 4, 1, 2), adding=(4,), removing=(1, 2)
    )
    assert Reassignment.between((1, 2), (2, 1)) == Reassignment((2, 1))


def test_a_reassignment_completes_when_the_target_is_in_sync() -> None:
    reassignment = Reassignment.between((1, 2), (2, 3))
    assert reassignment.completed((1, 2)) is None
    assert reassignment.completed((1, 2, 3)) == (Reassignment((2, 3)), (2, 3))
    assert Reassignment((1, 2)).completed((1, 2)) is None


def test_a_removed_leader_is_replaced_when_the_reassignment_completes() -> None:
    found = change(
        partition(), election=Election.ONLINE, reassignment=Reassignment.between((1, 2, 3), (2, 3))
    )
    assert found == record(leader=2, isr=[2, 3], replicas=[2, 3])


def test_a_reassignment_that_waits_keeps_the_leader() -> None:
    found = change(
        partition(),
        election=Election.ONLINE,
        active=(1, 2, 3, 4),
        reassignment=Reassignment.between((1, 2, 3), (1, 4)),
    )
    assert found == record(replicas=[1, 4, 2, 3], adding_replicas=[4], removing_replicas=[2, 3])


def test_an_unchanged_record_has_the_defaults_of_the_schema() -> None:
    assert record().leader == UNCHANGED_LEADER
    assert record().leader_recovery_state not in (IS_RECOVERING, IS_RECOVERED)
