"""Transactions with offsets, records and offsets survive nodes that fail, and kills of all nodes.

`KAFKALITE_ROUNDS` is the number of kills; a failure prints the seed that repeats it.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter

import pytest

from tests.properties.failing_nodes import NEW, OLD, FailingNodes

pytestmark = pytest.mark.endurance

_ROUNDS = int(os.environ.get("KAFKALITE_ROUNDS", "100"))
_ROUNDS_OF_A_DISK = 5
"""Rounds until the nodes begin again on an empty disk, with the next seed."""


def test_nothing_acknowledged_is_lost_doubled_reversed_or_half() -> None:
    events: Counter[str] = Counter()
    completed = 0
    for seed in range(-(-_ROUNDS // _ROUNDS_OF_A_DISK)):
        choices = random.Random(seed)  # noqa: S311 - reproducible
        nodes = FailingNodes(choices, (NEW, OLD)[seed % 2], min_isr=1 + seed // 2 % 2)
        for number in range(_ROUNDS_OF_A_DISK):
            try:
                nodes.run_round()
            except BaseException as error:
                error.add_note(f"seed {seed}, round {number}, {nodes.events}")
                raise
        events += nodes.events
        completed += sum(slot.client.completed for slot in nodes.slots)
    sys.stdout.write(f"{completed} transactions and writes, {dict(events)}\n")
    assert events["kill"] >= _ROUNDS
