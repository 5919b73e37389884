"""The releases of Kafka with which kafkalite is compared as the same release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.apis.releases import served_rows
from kafkalite.config.releases import DEFAULT, emulated_release
from tests.oracle.releases import LATEST_PATCH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.apis.table import Row


class Release(NamedTuple):
    """A release of Kafka that is compared with kafkalite as this release."""

    name: str | None
    """The release that kafkalite emulates; None for the default one."""
    version: str | None
    """The version of Kafka; None for the pinned one, which has the default release."""

    def served_rows(self) -> Mapping[int, Row]:
        """Return the rows of the APIs that kafkalite as this release serves."""
        return served_rows(emulated_release(self.name or DEFAULT))


RELEASES: Final[Mapping[str, Release]] = {
    "4.3": Release("4.3", LATEST_PATCH["4.3"]),
    "4.4": Release(None, None),
}
"""Release → what is compared."""
