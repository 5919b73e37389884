"""The releases of Kafka that are compared, and all their differences from kafkalite.

Every other answer of these releases is equal to that of kafkalite as this release: in the scenarios
of three nodes, of authentication, of ACLs and of quotas, and in the comparison of authorizations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.apis.releases import served_rows
from kafkalite.config.releases import DEFAULT, emulated_release

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.apis.table import Row


class Difference(NamedTuple):
    """One entry of `advertised` or one field that differs; None also stands for an absent entry."""

    real: str | None
    emulated: str | None
    reason: str


KAFKA_4_4: Final[Mapping[str, Difference]] = {}

ANSWERS_OF_KAFKA_4_4: Final[Mapping[str, Difference]] = {}
"""Path of a field in the comparison of authorizations → its values."""

_TOPIC_SETTING: Final = "topic setting "


class Release(NamedTuple):
    """A release of Kafka that is compared with kafkalite as this release."""

    name: str | None
    """The release that kafkalite emulates; None for the default one."""
    version: str | None
    """The version of Kafka; None for the pinned one, which has the default release."""
    differences: Mapping[str, Difference]
    """What it advertises otherwise than kafkalite does."""
    answers: Mapping[str, Difference]
    """The fields of its answers that differ from those of kafkalite."""

    def served_rows(self) -> Mapping[int, Row]:
        """Return the rows of the APIs that kafkalite as this release serves like Kafka."""
        return served_rows(emulated_release(self.name or DEFAULT))

    @property
    def added_topic_settings(self) -> Mapping[str, str | None]:
        """The default values of the topic settings that kafkalite does not have."""
        return {
            name.removeprefix(_TOPIC_SETTING): difference.real
            for name, difference in self.differences.items()
            if name.startswith(_TOPIC_SETTING) and difference.emulated is None
        }


RELEASES: Final[Mapping[str, Release]] = {
    "4.3": Release("4.3", "4.3.1", {}, {}),
    "4.4": Release(None, None, KAFKA_4_4, ANSWERS_OF_KAFKA_4_4),
}
"""Release → what is compared."""
