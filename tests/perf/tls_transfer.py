"""Compares produce and consume over TLS with plain connections, on one broker in one run.

`python -m tests.perf.tls_transfer [--rounds N]` prints a Markdown table; pytest does not run this.
The processor time of the broker is steadier than the time of a transfer, of which the client needs
most.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import NamedTuple

from tests.oracle.target import free_port
from tests.perf import transfer
from tests.perf.first_answer import wait_for_answer

_COUNTS = {100: 500_000, 1000: 200_000}
"""Record size in bytes → number of records."""
_DIRECTIONS = ("produce", "consume")
_START_TIMEOUT_S = 60.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """The duration of a transfer, and the processor time that the broker needed for it."""

    elapsed_s: float
    broker_s: float


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    costs: dict[tuple[str, int, bool], list[Cost]] = {}
    with tempfile.TemporaryDirectory() as directory:
        ports = {False: free_port(), True: free_port()}
        command = [sys.executable, "-m", "kafkalite", "serve", "--tls", f"auto:{directory}"]
        command += ["--listen", f"PLAINTEXT://127.0.0.1:{ports[False]}"]
        command += ["--listen", f"SSL://127.0.0.1:{ports[True]}", "--log-level", "warning"]
        broker = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait_for_answer(ports[False], time.perf_counter() + _START_TIMEOUT_S)
            cases = product(range(rounds), _COUNTS, _DIRECTIONS, ports)
            for number, size, direction, is_tls in cases:
                begun_s = _processor_time_s(broker.pid)
                elapsed_s = transfer.measure(
                    direction,
                    ports[is_tls],
                    f"t-{size}-{number}-{is_tls}",
                    _COUNTS[size],
                    size,
                    authority=f"{directory}/ca.pem" if is_tls else None,
                )
                cost = Cost(elapsed_s, _processor_time_s(broker.pid) - begun_s)
                costs.setdefault((direction, size, is_tls), []).append(cost)
        finally:
            broker.kill()
            broker.wait()
    sys.stdout.write(
        "| | plain, records/s | TLS, records/s | TLS / plain | broker, plain | broker, TLS |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: |\n"
    )
    for size, direction in product(_COUNTS, _DIRECTIONS):
        rates, broker_times = [], []
        for is_tls in (False, True):
            measured = costs[direction, size, is_tls]
            rates.append(_COUNTS[size] / min(cost.elapsed_s for cost in measured))
            seconds = min(cost.broker_s for cost in measured)
            broker_times.append(f"{seconds * 1e6 / _COUNTS[size]:.2f} µs")
        plain, tls = rates
        sys.stdout.write(
            f"| {direction}, {size} bytes | {plain:,.0f} | {tls:,.0f} | {tls / plain:.2f} | "
            f"{' | '.join(broker_times)} |\n"
        )
    return 0


def _processor_time_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").split()
    return (int(fields[13]) + int(fields[14])) / _TICKS_PER_S


if __name__ == "__main__":
    sys.exit(main())
