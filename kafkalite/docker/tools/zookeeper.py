"""`zookeeper-server-start` and `zookeeper-shell`: the broker needs no ZooKeeper."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kafkalite.docker.tools.arguments import FAILED_STATUS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Report that there is no ZooKeeper; return the exit status.

    A start script may start ZooKeeper before the broker, so that this is no failure.
    """
    del arguments, environment
    print(f"{name}: the broker needs no ZooKeeper, and none is started", file=sys.stderr)  # noqa: T201
    return 0 if name == "zookeeper-server-start" else FAILED_STATUS
