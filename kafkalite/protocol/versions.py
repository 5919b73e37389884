"""Versions: a range of versions, in Kafka's notation: "3", "0-7", "9+"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_OPEN_END: Final = 0x7FFF
"""The largest int16; a range that ends with it is printed without an end."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions from `lowest` to `highest`, both included."""

    lowest: int
    highest: int = _OPEN_END

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parse "3", "0-7" or "9+"; raises ValueError for other texts."""
        if text.endswith("+"):
            return cls(int(text[:-1]))
        lowest, dash, highest = text.partition("-")
        return cls(int(lowest), int(highest if dash else lowest))

    def __post_init__(self) -> None:
        if not 0 <= self.lowest <= self.highest <= _OPEN_END:
            raise ValueError(f"no versions between {self.lowest} and {self.highest}")

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def __str__(self) -> str:
        if self.highest == _OPEN_END:
            return f"{self.lowest}+"
        if self.lowest == self.highest:
            return str(self.lowest)
        return f"{self.lowest}-{self.highest}"

    def overlap(self, other: Versions) -> Versions | None:
        """Return the versions in both ranges, or None."""
        lowest = max(self.lowest, other.lowest)
        highest = min(self.highest, other.highest)
        return Versions(lowest, highest) if lowest <= highest else None

    def within(self, other: Versions) -> range:
        """Return the versions of this range that are also in the other."""
        return range(max(self.lowest, other.lowest), min(self.highest, other.highest) + 1)
