"""kafkalite inside a test: a broker in the process of the test, with its clock and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalite.testing.broker import Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - attributes can have any type
    """Import `Broker` on first use: the pytest plugin in this package must load fast."""
    if name == "Broker":
        from kafkalite.testing.broker import Broker  # noqa: PLC0415

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
