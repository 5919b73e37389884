"""Expected findings of planted anomalies, and where they are planted."""

from __future__ import annotations

from typing import Final

from kafkalite.ports.named_tuples import NamedTuple

PARTITION: Final = 9
"""The partition of all planted anomalies; regular traffic does not use it."""


class Expected(NamedTuple):
    """What a check has to find, and nothing else above a note."""

    rule: str
    cause: str
    records: int
