"""Commands that add, list and remove faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kafkalite.config.typed_json import About
from kafkalite.control.command_table import Family, Row, Words
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
class ClearFaults:
    """Remove all faults; return them with their final counts."""

    async def perform(self, broker: Broker) -> FaultList:
        """Remove all faults."""
        return FaultList(tuple(broker.faults.clear()))


def _line(state: FaultState) -> str:
    counts = f"{state.matches} selected, {state.firings} fired"
    return f"{state.id}: {describe_rule(state.rule)} ({counts})"


def _lines_of_one(state: FaultState, _: object) -> list[str]:
    return [_line(state)]


def _lines(listed: FaultList, _: object) -> list[str]:
    return list(map(_line, listed.faults)) or ["no faults"]


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
            _lines_of_one,
            {
                "match": {"api": "Produce", "topic": "orders"},
                "trigger": {"times": 1},
                "action": {"error": "NOT_ENOUGH_REPLICAS"},
            },
            201,
        ),
        Row(
            RemoveFault,
            FaultState,
            "DELETE",
            _PATH_OF_ONE,
            (Words("fault remove", "Remove one fault or all faults.", ("fault_id",)),),
            _lines_of_one,
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
