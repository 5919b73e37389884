"""Figures of the sweeps of `examples/sweep`: how often findings repeat, and what a case costs.

Run `python -m tests.examples.sweep_figures [SERVICE ...]`; without a service, it takes all of them.
The cost is the processor time of the sweep beyond the run of the command.
"""

from __future__ import annotations

import sys
from time import process_time
from typing import TYPE_CHECKING, Final

from kafkalite.lab.sweep.commands import Command
from kafkalite.lab.sweep.schedules import parse_schedule
from kafkalite.lab.sweep.sweep import Sweep
from tests.examples.sweep_services import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.lab.sweep.commands import CommandResult

_RUNS: Final = 10
_MS_PER_S: Final = 1000


class _Meter:
    """The processor time of this process while commands run; a cluster serves them in it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        run = Command.run

        def measured(
            command: Command, variables: Mapping[str, str], limit_s: float
        ) -> CommandResult:
            began = process_time()
            try:
                return run(command, variables, limit_s)
            finally:
                self.seconds += process_time() - began

        Command.run = measured  # type: ignore[assignment,method-assign]


def main() -> None:
    """Print the figures of each service."""
    meter = _Meter()
    for name in sys.argv[1:] or BY_NAME:
        service = BY_NAME[name]
        with Sweep(service.options(is_planted=True)) as sweep:
            sweep.run_baseline(lambda _: None)
            for text, reason in service.found.items():
                schedule = parse_schedule(text)
                began, inside = process_time(), meter.seconds
                verdicts = [sweep.run(schedule).verdict for _ in range(_RUNS)]
                outside = process_time() - began - (meter.seconds - inside)
                found = sum(
                    each.is_finding and reason in " ".join(each.reasons) for each in verdicts
                )
                cost = f"{_MS_PER_S * outside / _RUNS:.0f} ms a case"
                sys.stdout.write(f"{name}: {text}: {found} of {_RUNS}, {cost}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
