"""SeededEntropy for tests; it is that of a broker with a seed."""

from __future__ import annotations

from kafkalite.ports.seeded_entropy import SeededEntropy

__all__ = ["SeededEntropy"]
