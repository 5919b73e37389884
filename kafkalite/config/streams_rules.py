"""StreamsRules: decisions about streams groups that differ between releases of Kafka.

Releases before Kafka 4.4 have the rules of Kafka 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class StreamsRules(NamedTuple):
    """Rules of streams groups that differ between releases; the defaults are those of Kafka 4.4."""

    accepts_all_members: bool = True
    """Whether members may be static, own warm-up tasks and report offsets of tasks."""
    converts_tasks: bool = True
    """Whether a member may change the role of a task, such as active, without releasing it."""
    starts_from_current_tasks: bool = True
    """Whether the assignor retains the current tasks of members; if not, their target tasks."""
    admits_rejoins_to_full_groups: bool = True
    """Whether a member of a group of maximum size may join again."""
    reports_changed_endpoints: bool = True
    """Whether a changed address of a member is reported at once, and removed by a join without."""
    sends_offset_settings: bool = True
    """Whether members get the interval of task offsets and the acceptable recovery lag."""
    has_rack_tags: bool = True
    """Whether the assignment settings have the tags for rack-aware assignment."""
    resets_empty_targets: bool = True
    """Whether the removal of the last member sets the target epoch to the group epoch."""


_RULES_BEFORE_4_4: Final = StreamsRules(*[False] * len(StreamsRules._fields))

_RULES: Final[Mapping[str, StreamsRules]] = {"4.4": StreamsRules()}
"""Release → its rules; earlier releases have those of Kafka 4.3."""


def streams_rules_of(release: str) -> StreamsRules:
    """Return the rules of streams groups in a release."""
    return _RULES.get(release, _RULES_BEFORE_4_4)
