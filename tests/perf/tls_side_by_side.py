"""Compares produce and consume over TLS with a real Kafka and with kfake, in one run.

`python -m tests.perf.tls_side_by_side [--rounds N] [--peers kafka,kfake]` prints Markdown tables;
pytest does not run this. All brokers run during the whole measurement and take turns for each
transfer, so that other work of the machine has little effect on the ratios.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.security.certificates import CertificateFiles, make_certificates
from tests.oracle.real_kafka import PRODUCTION_FLAGS, RealKafka
from tests.oracle.requirements import MissingProgramError, UnavailableError
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import free_port
from tests.perf import transfer
from tests.perf.competitors import CONFIG, Kfake
from tests.perf.pipeline import cpu_seconds
from tests.perf.report import KAFKALITE, PEERS, Measure, Results, table
from tests.perf.side_by_side import MEMORY_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.perf.competitors import Competitor

_COUNTS: Final = {100: 500_000, 2_000: 100_000, 100_000: 3_000}
"""Record size in bytes → number of records."""
_DIRECTIONS: Final = ("produce", "consume")
_BYTES_PER_MB: Final = 1_000_000
_START_TIMEOUT_S: Final = 60.0
_RETRY_S: Final = 0.05

RATES: Final = tuple(
    Measure(key=f"{direction}-{size}", title=f"{direction}, {size} bytes", unit="MB/s")
    for size in _COUNTS
    for direction in _DIRECTIONS
)
COSTS: Final = tuple(
    Measure(
        key=f"cpu-{rate.key}",
        title=f"{rate.title}: processor time of the broker",
        unit="ms for each MB",
        digits=2,
        less_is_better=True,
    )
    for rate in RATES
)


class TlsBroker(NamedTuple):
    """A broker, and its port for TLS."""

    broker: Competitor
    port: int


def _kafkalite(directory: Path, files: CertificateFiles) -> TlsBroker:
    port = free_port()
    options = ("--listen", f"SSL://127.0.0.1:{port}", "--tls", f"auto:{files.directory}")
    return TlsBroker(ServedKafkalite(directory / KAFKALITE, CONFIG, options=options), port)


def _kafka(directory: Path, files: CertificateFiles) -> TlsBroker:
    port = free_port()
    config = dict(CONFIG)
    broker = RealKafka(directory / "kafka", config, heap="1g", flags=PRODUCTION_FLAGS)
    listeners = f"PLAINTEXT://{broker.bootstrap},SSL://127.0.0.1:{port}"
    config |= {
        "listeners": f"{listeners},CONTROLLER://{broker.controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": files.server,
    }
    broker.prepare()
    return TlsBroker(broker, port)


def _kfake(_directory: Path, files: CertificateFiles) -> TlsBroker:
    broker = Kfake(files.server)
    return TlsBroker(broker, broker.port)


_FACTORIES: Final[dict[str, Callable[[Path, CertificateFiles], TlsBroker]]] = {
    KAFKALITE: _kafkalite,
    "kafka": _kafka,
    "kfake": _kfake,
}


def _start(running: TlsBroker) -> None:
    """Start a broker, and wait until its port for TLS accepts connections."""
    running.broker.launch()
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", running.port)) == 0:
                return
        time.sleep(_RETRY_S)
    running.broker.kill()
    raise UnavailableError(f"{running.broker.name} did not start: {running.broker.log_tail()}")


def _turns(rounds: int, brokers: list[TlsBroker]) -> Iterator[tuple[int, int, str, TlsBroker]]:
    """Yield round, size, direction and broker; another broker is first in each round."""
    for number in range(rounds):
        first = number % len(brokers)
        for size in _COUNTS:
            for direction in _DIRECTIONS:
                for broker in (*brokers[first:], *brokers[:first]):
                    yield number, size, direction, broker


def measure(rounds: int, names: list[str], directory: Path) -> Results:
    """Return the rates and the processor times of all transfers."""
    results = Results()
    certificates = directory / "certificates"
    certificates.mkdir()
    files = make_certificates(str(certificates), ("localhost", "127.0.0.1"))
    brokers: list[TlsBroker] = []
    try:
        for name in names:
            try:
                broker = _FACTORIES[name](directory, files)
                _start(broker)
                brokers.append(broker)
            except (MissingProgramError, UnavailableError) as error:
                sys.stderr.write(f"{name} is not measured: {error}\n")
        for number, size, direction, (broker_process, port) in _turns(rounds, brokers):
            before_s = cpu_seconds(broker_process.pid)
            elapsed_s = transfer.measure(
                direction,
                port,
                f"t-{size}-{number}",
                _COUNTS[size],
                size,
                authority=files.authority,
            )
            used_s = cpu_seconds(broker_process.pid) - before_s
            megabytes = _COUNTS[size] * size / _BYTES_PER_MB
            name = broker_process.name
            results.add(f"{direction}-{size}", name, megabytes / elapsed_s)
            results.add(f"cpu-{direction}-{size}", name, used_s * 1000 / megabytes)
    finally:
        for broker in brokers:
            broker.broker.kill()
    return results


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--directory", default=MEMORY_DIRECTORY)
    options = parser.parse_args()
    names = [KAFKALITE, *filter(None, options.peers.split(","))]
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        results = measure(options.rounds, names, Path(directory))
    sys.stdout.write(f"{table(results, (*RATES, *COSTS))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
