"""Random and mutated authentications: none is accepted, and none causes an exception."""

from __future__ import annotations

import pytest

from tests.effort import examples
from tests.properties.authentication_attacks import EXPECTED_REASONS, attack


@pytest.mark.parametrize("seed", range(4))
def test_no_mutated_authentication_is_accepted(seed: int) -> None:
    assert attack(examples(1_000), seed).keys() >= EXPECTED_REASONS


@pytest.mark.endurance
@pytest.mark.parametrize("seed", range(100, 110))
def test_no_authentication_of_many_is_accepted(seed: int) -> None:
    assert attack(examples(5_000), seed).keys() >= EXPECTED_REASONS
