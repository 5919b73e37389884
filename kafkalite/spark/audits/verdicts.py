"""The three rules of `kafkalite.groups.fencing` in SQL, for members of whom not all is known.

A rule says accept or refuse; where the capture leaves open what the coordinator knew, it says
undecidable. A property test judges this against the coordinator's own comparing function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.groups.fencing import ASSIGNMENT_EPOCH, REVOCATION_EPOCH, STRICT
from kafkalite.spark.state.epochs import GONE, KNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

ACCEPT: Final = "accept"
REFUSE: Final = "refuse"
UNDECIDABLE: Final = "undecidable"
NOT_APPLICABLE: Final = "n/a"
"""Of a rule by member epochs, and a member that has none."""

RULE_COLUMNS: Final[Mapping[str, str]] = {
    STRICT: "strict",
    REVOCATION_EPOCH: "revocation",
    ASSIGNMENT_EPOCH: "assignment",
}
"""Each rule's column in tables of verdicts."""


def verdict(rule: str, state: str, held: str) -> str:
    """Return SQL for what a rule says of a commit at `commit_epoch`.

    `state` is the member's step: its standing, epoch, revocation_epoch, certain_epoch and whether
    its assignment is known.
    `held` is what it holds of the partition: since_epoch, is_since_known, is_named; or null.
    """
    return (
        f"case when {state}.standing = '{GONE}' then '{REFUSE}'"
        f" when {state}.standing is distinct from '{KNOWN}' then '{UNDECIDABLE}'"
        f" when commit_epoch = {state}.epoch then '{ACCEPT}'"
        f" when commit_epoch > {state}.epoch then '{REFUSE}'"
        f" {_BEHIND[rule].format(state=state, held=held)} end"
    )


_BEHIND: Final[Mapping[str, str]] = {
    STRICT: f"else '{REFUSE}'",
    REVOCATION_EPOCH: (
        f"when commit_epoch <= {{state}}.revocation_epoch then '{REFUSE}'"
        f" when commit_epoch <= 0 then '{REFUSE}'"
        # Where something was not seen, there may have been a revocation that is later.
        f" when commit_epoch < {{state}}.certain_epoch then '{UNDECIDABLE}' else '{ACCEPT}'"
    ),
    ASSIGNMENT_EPOCH: (
        f"when {{held}}.since_epoch is null and not {{state}}.is_assigned_known"
        f" then '{UNDECIDABLE}'"
        f" when {{held}}.since_epoch is null then '{REFUSE}'"
        # What it holds may be of another topic that the capture never names.
        f" when not {{held}}.is_named then '{UNDECIDABLE}'"
        f" when commit_epoch >= {{held}}.since_epoch then '{ACCEPT}'"
        f" when {{held}}.is_since_known then '{REFUSE}' else '{UNDECIDABLE}'"
    ),
}
"""What each rule says of a commit at an epoch before the member's present one."""
