"""BrokerFaults: adds and removes faults of a broker from the test's thread."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Self, Unpack

from kafkalite.control.commands.faults import (
    AddFault,
    ClearFaults,
    ListFaults,
    ReleaseFault,
    RemoveFault,
    ShowFault,
)
from kafkalite.control.waiting import milliseconds_of
from kafkalite.gateway.fault_rules import UnknownFaultError, describe_rule, rule_of

if TYPE_CHECKING:
    from kafkalite.control.command_table import Perform
    from kafkalite.gateway.fault_rules import FaultFields, FaultState, Rule


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

    @property
    def waiting(self) -> int:
        """The number of requests that the fault delays or holds now."""
        return self._current_state().waiting

    def wait(self, firings: int = 1, *, timeout: float = 5.0) -> None:
        """Wait until the fault has fired this often; raises AssertionError after `timeout` seconds.

        Raises ValueError if the fault was removed.
        """
        wait_ms = milliseconds_of("timeout", timeout)
        self._last_state = state = self._perform(ShowFault(self.id, firings, wait_ms))
        __tracebackhide__ = True  # pytest shows the line of the test
        if state.firings < firings:
            raise AssertionError(
                f"{self!r} has fired {state.firings} times in {timeout:g} s, not {firings} times; "
                f"it selected {state.matches} requests"
            )

    def release(self, count: int | None = None) -> None:
        """Handle the requests that wait, or the first `count` of them; the fault stays.

        Raises ValueError if the fault was removed.
        """
        self._last_state = self._perform(ReleaseFault(self.id, count))

    def remove(self) -> None:
        """Remove the fault; does nothing if it was removed before. Delayed requests are handled."""
        with suppress(UnknownFaultError):
            self._last_state = self._perform(RemoveFault(self.id))

    def _current_state(self) -> FaultState:
        for state in self._perform(ListFaults()).faults:
            if state.id == self.id:
                self._last_state = state
        return self._last_state

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<fault {self.id}: {describe_rule(self.rule)}>"


class BrokerFaults:
    """Adds, lists and removes faults; usable from any thread but the broker's."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    def add(self, **fields: Unpack[FaultFields]) -> InjectedFault:
        """Apply a fault to the requests that arrive from now on.

        `api`, `min_version`, `max_version`, `client_id`, `software`, `principal`, `group`,
        `member`, `topic`, `partition`, `transactional_id`, `producer_id`, `node` and `listener`
        select requests; all that are given must match. In the names of clients, `*` stands for any
        characters. `after`, `every`, `times`, `probability` and `nth` define for which of the
        selected requests the fault fires. `error`, `delay_ms`, `delay_max_ms`,
        `delay_deviation_ms`, `hold`, `late`, `disconnect`, `lost`, `twice`, `answer` and
        `throttle_ms` define the effect. An error of a fault with `group`, `topic`, `partition` or
        `transactional_id` affects only the rows of a request that match. Errors about members,
        producers, coordinators and leaders are made true in the broker before, unless
        `only_answer`; `force` admits errors that Kafka never returns for the API. Raises
        ValueError, with one sentence, for an invalid fault.
        """
        rule = rule_of(fields)
        state = self._perform(AddFault(rule.match, rule.trigger, rule.action))
        return InjectedFault(self._perform, state)

    def list(self) -> list[InjectedFault]:
        """Return all faults, in the order in which they were added."""
        listed = self._perform(ListFaults())
        return [InjectedFault(self._perform, state) for state in listed.faults]

    def remove(self, fault_id: str) -> None:
        """Remove a fault; raises ValueError for an unknown id."""
        self._perform(RemoveFault(fault_id))

    def clear(self) -> None:
        """Remove all faults."""
        self._perform(ClearFaults())

    def assert_all_fired(self) -> None:
        """Raise AssertionError if a fault that was not removed has never fired, and name each."""
        idle = [repr(each) for each in self.list() if not each.firings]
        __tracebackhide__ = True
        if idle:
            raise AssertionError(f"these faults never fired: {', '.join(idle)}")
