"""Replay a capture on a broker, stand in for a recorded cluster, compare two captures.

These are the packages `player`, `standin` and `diff`. They share `comparison` and `rewriting`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalite.lab.replay.options import ReplayOptions
    from kafkalite.lab.replay.player.run import replay

__all__ = ["ReplayOptions", "replay"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any attribute of a module
    """Import `replay` and `ReplayOptions` on first use, because a stand-in needs neither."""
    if name == "replay":
        from kafkalite.lab.replay.player.run import replay  # noqa: PLC0415 - see above

        return replay
    if name == "ReplayOptions":
        from kafkalite.lab.replay.options import ReplayOptions  # noqa: PLC0415 - see above

        return ReplayOptions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
