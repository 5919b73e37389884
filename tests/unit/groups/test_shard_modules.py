"""Loading the modules of group shards in steps."""

from __future__ import annotations

import json
import subprocess
import sys

from kafkalite.groups import shard_modules
from kafkalite.groups.shard_modules import STEPS

MOST_MODULES_OF_A_STEP = 12
"""More modules would delay other requests by more than 10 ms on a slow machine."""

_PROGRAM = """
import json, sys
import kafkalite.cli.main, kafkalite.server.broker
from kafkalite.apis.table import find_api
from kafkalite.groups import shard_modules
from kafkalite.ports import turns

counts = [len(sys.modules)]
turns.pause = lambda: counts.append(len(sys.modules))
find_api(10)
turns.pause()
shard_modules.load()
print(json.dumps([after - before for before, after in zip(counts, counts[1:])]))
"""


def test_no_step_loads_many_modules() -> None:
    """The first request loads those of the API, each step some of those of shards."""
    completed = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )
    first_use, *steps = json.loads(completed.stdout)
    assert first_use <= MOST_MODULES_OF_A_STEP
    by_step = dict(zip(STEPS, steps, strict=True))
    assert {step: count for step, count in by_step.items() if count > MOST_MODULES_OF_A_STEP} == {}
    assert all(by_step.values()), "a step without modules is superfluous"


def test_the_modules_are_loaded_after_the_last_step() -> None:
    shard_modules.load()
    assert shard_modules.are_loaded()
