"""Captures played again: against a broker, as a broker, and one compared with another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalite.replay.calls import replay
    from kafkalite.replay.differing import diff
    from kafkalite.replay.options import ReplayOptions

__all__ = ["ReplayOptions", "diff", "replay"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - what a module holds can be anything
    """Import a call when it is first named: a broker that replays needs neither of them."""
    if name == "replay":
        from kafkalite.replay.calls import replay  # noqa: PLC0415 - see above

        return replay
    if name == "diff":
        from kafkalite.replay.differing import diff  # noqa: PLC0415 - see above

        return diff
    if name == "ReplayOptions":
        from kafkalite.replay.options import ReplayOptions  # noqa: PLC0415 - see above

        return ReplayOptions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
