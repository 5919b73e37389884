"""The three rules of `groups.modern.offset_commit_fencing` as SQL, for partly known members.

A rule returns accept or refuse, or undecidable if the capture does not show the coordinator's
state. A property test compares these rules with the coordinator's own function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.groups.modern.offset_commit_fencing import ASSIGNMENT_EPOCH, REVOCATION_EPOCH, STRICT
from kafkalite.lab.spark.state.epochs import KNOWN, NOT_MEMBER

if TYPE_CHECKING:
    from collections.abc import Mapping

ACCEPT: Final = "accept"
REFUSE: Final = "refuse"
UNDECIDABLE: Final = "undecidable"
NOT_APPLICABLE: Final = "n/a"
"""The decision of a rule by member epochs for a member without epochs."""

RULE_COLUMNS: Final[Mapping[str, str]] = {
    STRICT: "strict_decision",
    REVOCATION_EPOCH: "revocation_epoch_decision",
    ASSIGNMENT_EPOCH: "assignment_epoch_decision",
}
"""Each rule's column."""


def decision_sql(rule: str, state: str, owned: str) -> str:
    """Return SQL for a rule's decision on a commit at `commit_epoch`.

    `state` is the member's step: status, epoch, revocation_epoch, known_since_epoch and
    is_assigned_known.
    `owned` is the member's ownership of the partition: assignment_epoch,
    is_assignment_epoch_known and is_named; or null.
    """
    return (
        f"case when {state}.status = '{NOT_MEMBER}' then '{REFUSE}'"
        f" when {state}.status is distinct from '{KNOWN}' then '{UNDECIDABLE}'"
        f" when commit_epoch = {state}.epoch then '{ACCEPT}'"
        f" when commit_epoch > {state}.epoch then '{REFUSE}'"
        f" {_DECISIONS_AT_EARLIER_EPOCH[rule].format(state=state, owned=owned)} end"
    )


_DECISIONS_AT_EARLIER_EPOCH: Final[Mapping[str, str]] = {
    STRICT: f"else '{REFUSE}'",
    REVOCATION_EPOCH: (
        f"when commit_epoch <= {{state}}.revocation_epoch then '{REFUSE}'"
        f" when commit_epoch <= 0 then '{REFUSE}'"
        # A later revocation may be missing from the capture.
        f" when commit_epoch < {{state}}.known_since_epoch then '{UNDECIDABLE}' else '{ACCEPT}'"
    ),
    ASSIGNMENT_EPOCH: (
        f"when {{owned}}.assignment_epoch is null and not {{state}}.is_assigned_known"
        f" then '{UNDECIDABLE}'"
        f" when {{owned}}.assignment_epoch is null then '{REFUSE}'"
        # The owned partition's topic id has no name in the capture: it may be another topic.
        f" when not {{owned}}.is_named then '{UNDECIDABLE}'"
        f" when commit_epoch >= {{owned}}.assignment_epoch then '{ACCEPT}'"
        f" when {{owned}}.is_assignment_epoch_known then '{REFUSE}' else '{UNDECIDABLE}'"
    ),
}
"""Each rule's decision on a commit at an epoch before the member's current one."""
