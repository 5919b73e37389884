"""BrokerFaults: adds and removes faults of a broker from the test's thread."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Self

from kafkalite.control.commands import AddFault, ClearFaults, ListFaults, RemoveFault
from kafkalite.gateway.fault_rules import UnknownFaultError, describe_rule, parse_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from kafkalite.control.commands import FaultCommand
    from kafkalite.gateway.fault_rules import Rule
    from kafkalite.gateway.faults import FaultState

    Perform = Callable[[FaultCommand], Sequence[FaultState]]


class InjectedFault:
    """One fault; as a context manager it is removed at the end of the block."""

    def __init__(self, perform: Perform, state: FaultState) -> None:
        self._perform = perform
        self._last_state = state

    @property
    def id(self) -> str:
        """The id of the fault in the log, in `explain` and for other processes."""
        return self._last_state.id

    @property
    def rule(self) -> Rule:
        """The rule: the selected requests, the condition to fire, and the action."""
        return self._last_state.rule

    @property
    def matches(self) -> int:
        """The number of requests selected so far; after removal, the final number."""
        return self._current_state().matches

    @property
    def firings(self) -> int:
        """The number of requests for which the fault fired."""
        return self._current_state().firings

    def remove(self) -> None:
        """Remove the fault; does nothing if it was removed before. Delayed requests are handled."""
        with suppress(UnknownFaultError):
            (self._last_state,) = self._perform(RemoveFault(self.id))

    def _current_state(self) -> FaultState:
        for state in self._perform(ListFaults()):
            if state.id == self.id:
                self._last_state = state
        return self._last_state

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<fault {self.id}: {describe_rule(self.rule)}>"


class BrokerFaults:
    """Adds, lists and removes faults; usable from any thread but the broker's."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    def add(
        self,
        *,
        api: str | None = None,
        client_id: str | None = None,
        group: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        transactional_id: str | None = None,
        node: int | None = None,
        listener: str | None = None,
        times: int | None = None,
        after: int | None = None,
        every: int | None = None,
        nth: int | None = None,
        probability: float | None = None,
        error: str | None = None,
        delay_ms: int | None = None,
        disconnect: bool | str | None = None,
    ) -> InjectedFault:
        """Apply a fault to the requests that arrive from now on.

        `api` to `listener` select requests; all that are given must match. `times` to `probability`
        define for which of the selected requests the fault fires. `error`, `delay_ms` and
        `disconnect` define the effect on those requests. An error of a fault with `group`, `topic`,
        `partition` or `transactional_id` affects only the rows of a request that match. Raises
        ValueError, with one sentence, for an invalid fault.
        """
        match = {
            "api": api,
            "client_id": client_id,
            "group": group,
            "topic": topic,
            "partition": partition,
            "transactional_id": transactional_id,
            "node": node,
            "listener": listener,
        }
        trigger = {
            "times": times,
            "after": after,
            "every": every,
            "nth": nth,
            "probability": probability,
        }
        action = {"error": error, "delay_ms": delay_ms, "disconnect": disconnect}
        parts = {"match": match, "trigger": trigger, "action": action}
        body = {name: _without_unset(fields) for name, fields in parts.items()}
        (state,) = self._perform(AddFault(parse_rule(body)))
        return InjectedFault(self._perform, state)

    def list(self) -> list[InjectedFault]:
        """Return all faults, in the order in which they were added."""
        return [InjectedFault(self._perform, state) for state in self._perform(ListFaults())]

    def remove(self, fault_id: str) -> None:
        """Remove a fault; raises ValueError for an unknown id."""
        self._perform(RemoveFault(fault_id))

    def clear(self) -> None:
        """Remove all faults."""
        self._perform(ClearFaults())


def _without_unset(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}
