"""The command that finds the record which made a condition true."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from kafkalite.config.typed_json import About
from kafkalite.control.command_table import Family, Row, running_cluster
from kafkalite.control.time_travel.bisection import Bisection, FoundRecord
from kafkalite.control.time_travel.logs import RunningLogs
from kafkalite.control.time_travel.points import point_of
from kafkalite.coordinator.contract import SUBJECTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.control.time_travel.logs import LogSource
    from kafkalite.server.broker import Broker


@dataclass(frozen=True, slots=True)
class Bisect:
    """Find the record that made a condition about the state of the cluster true.

    The logs that have the values in the condition are read from their beginning, while the broker
    goes on.
    """

    until: Annotated[
        str,
        About("condition, such as 'committed(shop, orders, 0) < 5'", metavar="CONDITION"),
    ]
    after: Annotated[
        str | None,
        About(
            "only records after this time, such as 2026-03-01T12:00:00Z or 5m (ago), or from this "
            "offset on [all]",
            metavar="POINT",
        ),
    ] = None
    last: Annotated[
        bool, About("find the record that made it true for the last time, not for the first")
    ] = False

    async def perform(self, broker: Broker) -> FoundRecord:
        """Return the record; raises TimeTravelError if there is none."""
        bisection = self.begin(RunningLogs(running_cluster(broker)))
        for _ in bisection.steps():
            await asyncio.sleep(0)
        found = bisection.result()
        return replace(found, reasons=tuple(_reasons(broker, bisection.names, found.at_ms)))

    def begin(self, source: LogSource) -> Bisection:
        """Return the search in the logs of a source; raises TimeTravelError for a mistake."""
        after = None if self.after is None else point_of(self.after, source.now_ms)
        return Bisection(source, self.until, after=after, is_last=self.last)


def _reasons(broker: Broker, names: Sequence[str], at_ms: int) -> list[str]:
    """Return the texts in the history about these names at a time."""
    entries = [
        entry
        for name in dict.fromkeys(names)
        for kind in SUBJECTS
        for entry in broker.history.about(name, of=kind)
        if at_ms in {entry.first_ms, entry.at_ms}
    ]
    return [each.text for each in sorted(entries, key=lambda entry: entry.number)]


COMMANDS = Family((Row(Bisect, FoundRecord, "GET", "/v1/bisect"),))
