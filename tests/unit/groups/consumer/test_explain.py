"""What a refused member is told, and whoever asks on its behalf."""

from __future__ import annotations

import pytest

from kafkalite.groups.fencing import FENCING_KEY
from kafkalite.groups.group import CommitClaim
from kafkalite.groups.offsets import OffsetToCommit
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.unit.groups.consumer.stage import START_MS, Stage, topic_id

T = topic_id("T")


def handed_over(rule: str) -> Stage:
    """Return a group whose member A is at epoch 3 and has handed partitions 2 and 3 to B."""
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
    wishes = [
        OffsetToCommit(topic="T", topic_id=T, partition=partition, offset=1)
        for partition in partitions
    ]
    claim = CommitClaim(
        member_id=member_id,
        group_instance_id=None,
        generation_id_or_member_epoch=epoch,
        wishes=wishes,
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
LATER = "the member gave partitions up at epoch 2 and is at epoch 3 now"
TOO_EARLY = "partition became this member's at epoch 2 only"
NOT_ITS = "partition is not this member's"
NOBODY = "; nobody owns it now"
OWNER = "; owner now B since 22:13:21.100"


@pytest.mark.parametrize(
    ("rule", "epoch", "partitions", "text"),
    [
        (
            "strict", 2, (0, 2),
            f"commit of T-2 at epoch 2 refused: {GIVEN_UP} (rule strict){OWNER}",
        ),
        (
            "strict", 2, (0,),
            "commit of T-0 at epoch 2 refused: the member is at epoch 3 now (rule strict)",
        ),
        (
            "strict", 2, (),
            "commit at epoch 2 refused: the member is at epoch 3 now (rule strict)",
        ),
        (
            "strict", 4, (0,),
            "commit of T-0 at epoch 4 refused: the member is at epoch 3 only (rule strict)",
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
            f"commit of T-9 at epoch 2 refused: {NOT_ITS} (rule assignment-epoch){NOBODY}",
        ),
    ],
)  # fmt: skip
def test_a_refused_commit_says_why(
    rule: str, epoch: int, partitions: tuple[int, ...], text: str
) -> None:
    error = refused(handed_over(rule), epoch, *partitions)
    assert (error.code, error.message) == (ErrorCode.STALE_MEMBER_EPOCH, text)


def test_a_refused_commit_says_it_for_programs_too() -> None:
    error = refused(handed_over("revocation-epoch"), 2, 2)
    assert error.facts == {
        "rule": "revocation-epoch",
        "member_id": "A",
        "epoch": 2,
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


def test_what_was_forgotten_by_a_restart_is_left_out() -> None:
    stage = handed_over("revocation-epoch")
    stage.restart()
    assert refused(stage, 2, 2).message == (
        "commit of T-2 at epoch 2 refused: partition is not this member's "
        "(rule revocation-epoch); owner now B"
    )
