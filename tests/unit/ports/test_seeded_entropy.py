"""SeededEntropy: the same values for the same seed and position."""

from __future__ import annotations

from kafkalite.ports.entropy import is_usable_uuid
from kafkalite.ports.seeded_entropy import SeededEntropy


def values(entropy: SeededEntropy) -> tuple[bytes, str, int]:
    return entropy.uuid(), entropy.uuid4_text(), entropy.integer(1_000_000)


def test_values_follow_from_the_seed() -> None:
    first = values(SeededEntropy(1))
    assert first == values(SeededEntropy(1))
    assert all(one != two for one, two in zip(first, values(SeededEntropy(2)), strict=True))
    assert is_usable_uuid(first[0])
    assert first[1][14] == "4"


def test_values_depend_on_the_position_in_a_history() -> None:
    def after(position: str, seed: int = 1) -> tuple[bytes, str, int]:
        entropy = SeededEntropy(seed)
        entropy.uuid()
        entropy.continue_after(position)
        return values(entropy)

    assert after("5 9") == after("5 9")
    assert len({after("5 9"), after("5 8"), after("5 9", seed=2)}) == 3
