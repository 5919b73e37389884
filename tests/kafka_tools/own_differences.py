"""The command lines of which the image's tools do not print what Kafka's tools print."""

from __future__ import annotations

from typing import Final

from kafkalite.docker.tools.absent import REASONS
from tests.kafka_tools.differences import DIFFERENCES
from tests.kafka_tools.scripts import SCRIPTS

UNSUPPORTED_TOOLS: Final = frozenset(REASONS) & SCRIPTS.keys()
"""Tools that are not in the image, for the reasons that the image prints."""


def is_compared(tool: str, title: str) -> bool:
    """Return whether a command line of a tool must be equal."""
    return tool not in UNSUPPORTED_TOOLS and title not in DIFFERENCES
