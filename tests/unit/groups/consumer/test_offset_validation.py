"""Validation of offset commits and fetches in consumer groups."""

from __future__ import annotations

from functools import partial

import pytest

from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.groups.consumer import consumer_group_records as records
from kafkalite.groups.consumer.member import (
    ClassicProtocolMember,
    CurrentAssignment,
    MemberMetadata,
)
from kafkalite.groups.group import CommitClaim
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.groups.consumer.stage import G, Stage, refusal, topic_id

T = topic_id("T")


def claim(
    member_id: str = "A",
    epoch: int = 5,
    *,
    transactional: bool = False,
    modern: bool = True,
    instance_id: str | None = None,
) -> CommitClaim:
    return CommitClaim(
        member_id=member_id,
        group_instance_id=instance_id,
        generation_id_or_member_epoch=epoch,
        is_transactional=transactional,
        supports_member_epochs=modern,
    )


@pytest.fixture
def stage() -> Stage:
    """Return a group whose members, A and the classic C, are at epoch 5 with partitions."""
    stage = Stage()
    current = CurrentAssignment(
        member_epoch=5, assigned={T: {0: 3, 1: 5}}, pending_revocation={T: {2: 2}}
    )
    classic = ClassicProtocolMember(session_timeout_ms=10_000, protocols=(("range", b"x"),))
    members = {"A": MemberMetadata(), "C": MemberMetadata(classic=classic)}
    stage.run(
        CoordinatorResult(
            response=None,
            records=[
                record
                for member_id, member in members.items()
                for record in (
                    records.member_metadata_record(G, member_id, member),
                    records.current_assignment_record(G, member_id, current),
                )
            ],
        )
    )
    return stage


def test_an_empty_group_accepts_commits_without_an_epoch() -> None:
    stage = Stage()
    stage.join("A")
    stage.beat("A", -1)
    assert stage.group.validate_offset_commit(claim("", -1)) is None
    assert (
        refusal(lambda: stage.group.validate_offset_commit(claim("", 0)))
        is ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_a_group_with_members_accepts_commits_of_members_only(stage: Stage) -> None:
    for who in (claim("", -1), claim("X", 5), claim("X", -1)):
        assert (
            refusal(partial(stage.group.validate_offset_commit, who)) is ErrorCode.UNKNOWN_MEMBER_ID
        )


def test_a_transaction_without_member_may_commit(stage: Stage) -> None:
    group = stage.group
    assert group.validate_offset_commit(claim("", -1, transactional=True)) is None
    claimed = claim("", -1, transactional=True, instance_id="i")
    assert refusal(lambda: group.validate_offset_commit(claimed)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_before_version_9_is_refused_as_unsupported_version(stage: Stage) -> None:
    group = stage.group
    assert (
        refusal(lambda: group.validate_offset_commit(claim(modern=False)))
        is ErrorCode.UNSUPPORTED_VERSION
    )
    assert group.validate_offset_commit(claim(modern=False, transactional=True)) is None
    assert group.validate_offset_commit(claim("C", modern=False)) is None


def test_a_commit_at_the_member_epoch_needs_no_partition_check(stage: Stage) -> None:
    assert stage.group.validate_offset_commit(claim("A", 5)) is None


@pytest.mark.parametrize(
    ("member_id", "code"),
    [("A", ErrorCode.STALE_MEMBER_EPOCH), ("C", ErrorCode.ILLEGAL_GENERATION)],
)
def test_a_greater_epoch_is_refused_by_the_error_of_the_protocol(
    stage: Stage, member_id: str, code: ErrorCode
) -> None:
    assert refusal(lambda: stage.group.validate_offset_commit(claim(member_id, 6))) is code


@pytest.mark.parametrize(
    ("member_id", "code"),
    [("A", ErrorCode.STALE_MEMBER_EPOCH), ("C", ErrorCode.ILLEGAL_GENERATION)],
)
def test_an_earlier_epoch_is_accepted_for_partitions_assigned_by_then(
    stage: Stage, member_id: str, code: ErrorCode
) -> None:
    check = stage.group.validate_offset_commit(claim(member_id, 3))
    assert check is not None
    check("T", T, 0)
    check("T", T, 2)
    assert refusal(lambda: check("T", T, 1)) is code
    assert refusal(lambda: check("T", T, 3)) is code
    assert refusal(lambda: check("T", topic_id("recreated"), 0)) is code


def test_a_missing_epoch_is_refused_for_every_partition(stage: Stage) -> None:
    check = stage.group.validate_offset_commit(claim("A", -1))
    assert check is not None
    assert refusal(lambda: check("T", T, 0)) is ErrorCode.STALE_MEMBER_EPOCH


def test_offset_fetch_requires_the_current_member_epoch(stage: Stage) -> None:
    group = stage.group
    group.validate_offset_fetch(None, -1)
    group.validate_offset_fetch("A", 5)
    group.validate_offset_fetch("C", 5)
    expected = {
        ("A", 4): ErrorCode.STALE_MEMBER_EPOCH,
        ("A", 6): ErrorCode.STALE_MEMBER_EPOCH,
        ("C", 4): ErrorCode.ILLEGAL_GENERATION,
        ("", -1): ErrorCode.UNKNOWN_MEMBER_ID,
        ("X", 5): ErrorCode.UNKNOWN_MEMBER_ID,
        (None, 5): ErrorCode.UNKNOWN_MEMBER_ID,
    }
    for (member_id, epoch), code in expected.items():
        assert refusal(partial(group.validate_offset_fetch, member_id, epoch)) is code


def test_a_record_without_assignment_epochs_uses_the_member_epoch() -> None:
    stage = Stage()
    current = CurrentAssignment(member_epoch=5, assigned={T: {0: 3}})
    written = records.current_assignment_record(G, "A", current)
    written.value.assigned_partitions[0].assignment_epochs = None  # type: ignore[attr-defined]
    stage.run(CoordinatorResult(response=None, records=[written]))
    assert stage.group.current_of("A").assigned == {T: {0: 5}}
