"""SeededEntropy: reproducible randomness, so that ids in tests are known and histories repeat."""

from __future__ import annotations

import random
import uuid

from kafkalite.ports.entropy import is_usable_uuid


class SeededEntropy:
    """An Entropy whose values depend on a seed only."""

    __slots__ = ("_random", "_seed")

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._random = random.Random(seed)  # noqa: S311 - predictable on purpose

    def continue_after(self, position: str) -> None:
        """Let all later values depend on the seed and on a position in a history.

        A broker that starts again with its data does not generate the same ids again.
        """
        self._random.seed(f"{self._seed} after {position}")

    def state(self) -> object:
        """Return what all later values follow from, for `restore`."""
        return self._random.getstate()

    def restore(self, state: object) -> None:
        """Return the same values as after `state` was called."""
        self._random.setstate(state)  # type: ignore[arg-type] # it is opaque

    def uuid(self) -> bytes:
        """Return the next 16 bytes usable as an id."""
        while True:
            raw = uuid.UUID(bytes=self._random.randbytes(16), version=4).bytes
            if is_usable_uuid(raw):
                return raw

    def uuid4_text(self) -> str:
        """Return the next UUID as 36 characters of hex and dashes."""
        return str(uuid.UUID(bytes=self._random.randbytes(16), version=4))

    def integer(self, bound: int) -> int:
        """Return the next integer in [0, bound)."""
        return self._random.randrange(bound)
