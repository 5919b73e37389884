"""Playing scenarios to brokers: one after the other, or many that mostly wait side by side."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

from tests.conformance.world import Entry, World

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.oracle.target import Target

Scenario: TypeAlias = Callable[[World], None]
Transcript: TypeAlias = "list[Entry] | BaseException"
"""What a broker answered, or what broke the scenario off."""


def play(scenario: Scenario, target: Target) -> list[Entry]:
    """Play a scenario to a broker and give the transcript."""
    world = World(target.port, scenario.__name__.replace("_", "-"))
    try:
        scenario(world)
    finally:
        world.close()
    return world.transcript


def play_together(
    scenarios: Sequence[Scenario], targets: Mapping[str, Target]
) -> Mapping[tuple[str, str], Transcript]:
    """Play scenarios to brokers all at once; (scenario, name of the broker) → transcript.

    For such as wait for timers, so that all the waiting takes no longer than the longest wait.
    """
    plays = [(scenario, name) for scenario in scenarios for name in targets]
    with ThreadPoolExecutor(len(plays)) as pool:
        played = pool.map(lambda one: _transcript(one[0], targets[one[1]]), plays)
        names = [(scenario.__name__, name) for scenario, name in plays]
        return dict(zip(names, played, strict=True))


def transcript_of(played: Transcript) -> list[Entry]:
    """Give a transcript, or raise what broke its scenario off."""
    if isinstance(played, BaseException):
        raise played
    return played


def _transcript(scenario: Scenario, target: Target) -> Transcript:
    try:
        return play(scenario, target)
    except Exception as error:  # noqa: BLE001 - whoever asks for this transcript raises it
        return error
