"""kafkalite inside a test: a broker in this process, and doors to drive time, chance and disks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalite.testing.broker import Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - what a module holds can be anything
    """Import `Broker` when it is first named: the pytest plugin beside it must load cheaply."""
    if name == "Broker":
        from kafkalite.testing.broker import Broker  # noqa: PLC0415

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
