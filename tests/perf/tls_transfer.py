"""Compares produce and consume over TLS with plain connections, on one broker in one run.

`python -m tests.perf.tls_transfer [--rounds N]` prints a Markdown table; pytest does not run this.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time

from tests.oracle.target import free_port
from tests.perf import transfer
from tests.perf.first_answer import wait_for_answer

_COUNTS = {100: 500_000, 1000: 200_000}
"""Record size in bytes → number of records."""
_START_TIMEOUT_S = 60.0


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    best: dict[tuple[str, int, bool], float] = {}
    with tempfile.TemporaryDirectory() as directory:
        plain_port, tls_port = free_port(), free_port()
        command = [sys.executable, "-m", "kafkalite", "serve", "--tls", f"auto:{directory}"]
        command += ["--listen", f"PLAINTEXT://127.0.0.1:{plain_port}"]
        command += ["--listen", f"SSL://127.0.0.1:{tls_port}", "--log-level", "warning"]
        broker = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait_for_answer(plain_port, time.perf_counter() + _START_TIMEOUT_S)
            for number in range(rounds):
                for size, count in _COUNTS.items():
                    for direction in ("produce", "consume"):
                        for is_tls in (False, True):
                            topic = f"t-{size}-{number}-{is_tls}"
                            port = tls_port if is_tls else plain_port
                            authority = f"{directory}/ca.pem" if is_tls else None
                            elapsed_s = transfer.measure(
                                direction, port, topic, count, size, authority=authority
                            )
                            key = (direction, size, is_tls)
                            best[key] = max(best.get(key, 0.0), count / elapsed_s)
        finally:
            broker.kill()
            broker.wait()
    sys.stdout.write("| | plain, records/s | TLS, records/s | TLS / plain |\n")
    sys.stdout.write("| --- | ---: | ---: | ---: |\n")
    for size in _COUNTS:
        for direction in ("produce", "consume"):
            plain, tls = (best[direction, size, is_tls] for is_tls in (False, True))
            sys.stdout.write(
                f"| {direction}, {size} bytes | {plain:,.0f} | {tls:,.0f} | {tls / plain:.2f} |\n"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
