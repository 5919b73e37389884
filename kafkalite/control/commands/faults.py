"""Commands that add, list and remove faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kafkalite.config.typed_json import About
from kafkalite.control.command_table import Family, Row, Words, one_line, write_answers
from kafkalite.control.waiting import MAX_WAIT_MS, becomes_true
from kafkalite.gateway.fault_rules import FaultState, Rule, UnknownFaultError, describe_rule

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker


@dataclass(frozen=True, slots=True)
class FaultList:
    """Faults in the order in which they were added."""

    faults: Annotated[tuple[FaultState, ...], About("All faults, or those that were removed.")]


@dataclass(frozen=True, slots=True)
class ListFaults:
    """List all faults."""

    async def perform(self, broker: Broker) -> FaultList:
        """Return all faults."""
        return FaultList(tuple(broker.faults.states()))


@dataclass(frozen=True, slots=True)
class ShowFault:
    """Return a fault with its counts, after a wait until it has fired often enough."""

    fault_id: Annotated[str, About("id that `fault add` and `fault list` print", metavar="ID")]
    firings: Annotated[int, About("wait until it has fired this often", minimum=0)] = 0
    wait_ms: Annotated[
        int,
        About(
            "time limit of the wait in milliseconds, in real time", minimum=0, maximum=MAX_WAIT_MS
        ),
    ] = 0

    async def perform(self, broker: Broker) -> FaultState:
        """Return the fault; raises UnknownFaultError for an unknown id."""
        faults, fault_id = broker.faults, self.fault_id
        await becomes_true(
            lambda: faults.state(fault_id).firings >= self.firings, faults.watchers, self.wait_ms
        )
        return faults.state(fault_id)


@dataclass(frozen=True, slots=True)
class AddFault(Rule):
    """Add a fault, which applies to the requests that arrive from now on.

    It selects the requests to which all fields of `match` apply. `trigger` defines for which of
    these it fires; without it, for each. Only `action` is required, with at least one field.
    """

    async def perform(self, broker: Broker) -> FaultState:
        """Add the fault; raises FaultError if it cannot be added."""
        return broker.faults.add(Rule(self.match, self.trigger, self.action))


@dataclass(frozen=True, slots=True)
class RemoveFault:
    """Remove a fault; return it with its final counts."""

    fault_id: Annotated[str, About("id that `fault add` and `fault list` print", metavar="ID")]

    async def perform(self, broker: Broker) -> FaultState:
        """Remove the fault; raises UnknownFaultError for an unknown id."""
        return broker.faults.remove(self.fault_id)


@dataclass(frozen=True, slots=True)
class ReleaseFault:
    """Handle the requests that a fault delays or holds; the fault stays, and holds later ones."""

    fault_id: Annotated[str, About("id that `fault add` and `fault list` print", metavar="ID")]
    count: Annotated[
        int | None,
        About("only this many, in the order of arrival [all]", minimum=1, metavar="N"),
    ] = None

    async def perform(self, broker: Broker) -> FaultState:
        """Release the requests; raises UnknownFaultError for an unknown id."""
        state = broker.faults.release(self.fault_id, self.count)
        await write_answers()
        return state


@dataclass(frozen=True, slots=True)
class ClearFaults:
    """Remove all faults; return them with their final counts."""

    async def perform(self, broker: Broker) -> FaultList:
        """Remove all faults."""
        return FaultList(tuple(broker.faults.clear()))


def line_of(state: FaultState) -> str:
    """Return a fault with its counts as one line."""
    counts = f"{state.matches} selected, {state.firings} fired"
    if state.waiting:
        counts += f", {state.waiting} waiting"
    return f"{state.id}: {describe_rule(state.rule)} ({counts})"


def _lines(listed: FaultList, _: object) -> list[str]:
    return list(map(line_of, listed.faults)) or ["no faults"]


_PATH, _PATH_OF_ONE = "/v1/faults", "/v1/faults/{fault_id}"

COMMANDS = Family(
    (
        Row(
            ListFaults,
            FaultList,
            "GET",
            _PATH,
            (
                Words(
                    "fault list",
                    "Print all faults, with the numbers of selected and affected requests.",
                ),
            ),
            _lines,
        ),
        Row(
            AddFault,
            FaultState,
            "POST",
            _PATH,
            (Words("fault add", "Add a fault that delays, refuses or disconnects requests."),),
            one_line(line_of),
            {
                "match": {"api": "Produce", "topic": "orders"},
                "trigger": {"times": 1},
                "action": {"error": "NOT_ENOUGH_REPLICAS"},
            },
            201,
        ),
        Row(ShowFault, FaultState, "GET", _PATH_OF_ONE, not_found=UnknownFaultError),
        Row(
            RemoveFault,
            FaultState,
            "DELETE",
            _PATH_OF_ONE,
            (Words("fault remove", "Remove one fault or all faults.", ("fault_id",)),),
            one_line(line_of),
            not_found=UnknownFaultError,
        ),
        Row(
            ReleaseFault,
            FaultState,
            "POST",
            f"{_PATH_OF_ONE}/release",
            (Words("fault release", "Handle the requests that a fault holds.", ("fault_id",)),),
            one_line(line_of),
            example={},
            not_found=UnknownFaultError,
        ),
        Row(
            ClearFaults,
            FaultList,
            "DELETE",
            _PATH,
            (Words("fault remove", "remove all faults", flag="all"),),
            _lines,
        ),
    ),
    {"fault": "Inject faults into requests to a running broker."},
)
