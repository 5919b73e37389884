"""kafkalite inside a test: a broker in the process of the test, with its clock and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalite.testing.broker import Broker
    from kafkalite.testing.history import history_of, same_history
    from kafkalite.testing.time_travel import StoppedBroker

__all__ = ["Broker", "StoppedBroker", "history_of", "same_history"]

_MODULES = {
    "Broker": "broker",
    "StoppedBroker": "time_travel",
    "history_of": "history",
    "same_history": "history",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - attributes can have any type
    """Import a name on first use: the pytest plugin in this package must load fast."""
    if name in _MODULES:
        from importlib import import_module  # noqa: PLC0415 - rarely used

        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
