"""BrokerChecks: what became of the records of a broker under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.lab.checker.findings import CheckResult
    from kafkalite.lab.checker.observed_history import ObservedHistory
    from kafkalite.server.broker import Broker

T = TypeVar("T")


class BrokerChecks:
    """The methods of `Broker` that check its history."""

    _history: ObservedHistory | None = None

    def _call(self, function: Callable[[Broker], T]) -> T:
        raise NotImplementedError

    def start_checking(self) -> None:
        """Begin a history of all requests, for `check`; the history before is discarded.

        Requests take longer while there is a history. It has up to a million requests. Call it
        again after a restore or a reset, which set the logs back.
        """
        from kafkalite.lab.checker.observed_history import ObservedHistory  # noqa: PLC0415 - rarely used

        previous, self._history = self._history, ObservedHistory()
        history = self._history

        def replace(broker: Broker) -> None:
            if previous is not None:
                broker.unsubscribe(previous.observe)
            broker.subscribe(history.observe)

        self._call(replace)

    def check(self) -> CheckResult:
        """Return what became of the records since `start_checking`, with the proof.

        `violations` of the result must be empty: records that are lost, doubled in the log,
        reordered, torn or written by a zombie. Can be called several times. Raises RuntimeError
        before `start_checking`.
        """
        from kafkalite.lab.checker.check import check  # noqa: PLC0415 - as above

        observed = self._history
        if observed is None:
            raise RuntimeError("there is no history: call start_checking before the clients start")

        def history(_: Any) -> Any:  # noqa: ANN401 - the broker
            return observed.history()

        return check(self._call(history))
