"""Explanations of refused offset commits."""

from __future__ import annotations

import pytest

from kafkalite.groups.group import CommitClaim
from kafkalite.groups.modern.offset_commit_fencing import FENCING_KEY
from kafkalite.groups.offsets import OffsetToCommit
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.unit.groups.consumer.stage import START_MS, Stage, topic_id

T = topic_id("T")


def stage_after_move(rule: str) -> Stage:
    """Return a group whose member A is at epoch 3 and has revoked partitions 2 and 3 for B."""
    stage = Stage({"T": 4}, {FENCING_KEY: rule})
    stage.join("A")
    stage.advance(1_001)
    stage.join("B")
    stage.beat("A", 2)
    stage.beat("A", 2, {"T": [0, 1]})
    stage.advance(99)
    stage.beat("B", 3)
    return stage


def refused(stage: Stage, epoch: int, *partitions: int, member_id: str = "A") -> KafkaError:
    offsets = [
        OffsetToCommit(topic="T", topic_id=T, partition=partition, offset=1)
        for partition in partitions
    ]
    claim = CommitClaim(
        member_id=member_id,
        group_instance_id=None,
        generation_id_or_member_epoch=epoch,
        offsets=offsets,
    )
    try:
        check = stage.group.validate_offset_commit(claim)
        assert check is not None
        for partition in partitions:
            check("T", T, partition)
    except KafkaError as error:
        return error
    raise AssertionError


GIVEN_UP = "partition revoked from this member at epoch 3"
LATER = "the member revoked partitions at epoch 2 and its epoch is now 3"
TOO_EARLY = "partition was assigned to this member only at epoch 2"
NOT_ASSIGNED = "partition is not assigned to this member"
NO_OWNER = "; no current owner"
OWNER = "; current owner: B since 22:13:21.100"


@pytest.mark.parametrize(
    ("rule", "epoch", "partitions", "text"),
    [
        (
            "strict", 2, (0, 2),
            f"commit of T-2 at epoch 2 refused: {GIVEN_UP} (rule strict){OWNER}",
        ),
        (
            "strict", 2, (0,),
            "commit of T-0 at epoch 2 refused: the member epoch is now 3 (rule strict)",
        ),
        (
            "strict", 2, (),
            "commit at epoch 2 refused: the member epoch is now 3 (rule strict)",
        ),
        (
            "strict", 4, (0,),
            "commit of T-0 at epoch 4 refused: the member epoch is only 3 (rule strict)",
        ),
        (
            "revocation-epoch", 2, (1, 2),
            f"commit of T-2 at epoch 2 refused: {GIVEN_UP} (rule revocation-epoch){OWNER}",
        ),
        (
            "revocation-epoch", 2, (0,),
            f"commit of T-0 at epoch 2 refused: {LATER} (rule revocation-epoch)",
        ),
        (
            "assignment-epoch", 2, (0, 3),
            f"commit of T-3 at epoch 2 refused: {GIVEN_UP} (rule assignment-epoch){OWNER}",
        ),
        (
            "assignment-epoch", 1, (0,),
            f"commit of T-0 at epoch 1 refused: {TOO_EARLY} (rule assignment-epoch)",
        ),
        (
            "assignment-epoch", 2, (9,),
            f"commit of T-9 at epoch 2 refused: {NOT_ASSIGNED} (rule assignment-epoch){NO_OWNER}",
        ),
    ],
)  # fmt: skip
def test_a_refused_commit_has_an_explanation(
    rule: str, epoch: int, partitions: tuple[int, ...], text: str
) -> None:
    error = refused(stage_after_move(rule), epoch, *partitions)
    assert (error.code, error.message) == (ErrorCode.STALE_MEMBER_EPOCH, text)


def test_a_refused_commit_has_facts() -> None:
    error = refused(stage_after_move("revocation-epoch"), 2, 2)
    assert error.facts == {
        "rule": "revocation-epoch",
        "member_id": "A",
        "received_epoch": 2,
        "member_epoch": 3,
        "revocation_epoch": 2,
        "target_epoch": 3,
        "group_epoch": 3,
        "topic": "T",
        "topic_id": "Li4uLi4uLi4uLi4uLi4uVA",
        "partition": 2,
        "assignment_epoch": None,
        "revoked_at_epoch": 3,
        "revoked_at_ms": START_MS + 1_001,
        "owner": "B",
        "owner_since_ms": START_MS + 1_100,
    }


def test_explanations_after_a_restart_have_no_history() -> None:
    stage = stage_after_move("revocation-epoch")
    stage.restart()
    assert refused(stage, 2, 2).message == (
        "commit of T-2 at epoch 2 refused: partition is not assigned to this member "
        "(rule revocation-epoch); current owner: B"
    )
