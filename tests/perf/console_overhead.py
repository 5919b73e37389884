"""Measures the cost of an open console: `python -m tests.perf.console_overhead [--check]`.

A broker serves pipelined offset commits in short alternating turns, with a page of the console open
in a browser and without it. The overhead is the median over the pairs of turns. The browser is a
process that does what the page's script does: it waits for changes and loads the page again after
each. The page about requests starts the log of requests, whose cost is a part of its overhead and
has a row of its own. `--check` fails if the overhead of a page is above the target.
"""

from __future__ import annotations

import argparse
import html
import http.client
import re
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from tests.oracle.served_kafkalite import ServedKafkalite
from tests.perf import groups_commits, heartbeats
from tests.perf.competitors import start
from tests.perf.pipeline import pump

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.perf.heartbeats import Membership

MAX_OVERHEAD: Final = 0.10
"""The permitted overhead, as a fraction of the rate without the console."""

_GROUP: Final = "committing"
_LOG_ONLY: Final = "log of requests, no page"
_LOGGED: Final = ("requests", _LOG_ONLY)
_PAGES: Final[Mapping[str, str | None]] = {
    "overview": "/",
    "group": f"/group?group={_GROUP}",
    "requests": "/requests",
    _LOG_ONLY: None,
}
_CHANGES: Final = re.compile(r'data-changes="([^"]+)"')
_SECONDS: Final = 2.0
_TIMEOUT_S: Final = 30


def browse(url: str) -> None:
    """Open a page, and load it again after each change, until the process is killed."""
    parts = urlsplit(url)
    path = f"{parts.path}?{parts.query}"
    loads = http.client.HTTPConnection(parts.netloc, timeout=_TIMEOUT_S)
    changes_path = _CHANGES.search(_load(loads, path))
    assert changes_path is not None, f"{url} has no changes"
    stream = http.client.HTTPConnection(parts.netloc, timeout=_TIMEOUT_S)
    stream.request("GET", html.unescape(changes_path[1]))
    events = stream.getresponse()
    sys.stdout.write("open\n")
    sys.stdout.flush()
    while line := events.readline():
        if line.startswith(b"event:"):
            _load(loads, path)
            sys.stdout.write("loaded\n")
            sys.stdout.flush()


def _load(connection: http.client.HTTPConnection, path: str) -> str:
    connection.request("GET", path)
    with connection.getresponse() as answer:
        assert answer.status == http.HTTPStatus.OK, answer.status
        return answer.read().decode()


@contextmanager
def open_page(url: str) -> Iterator[list[str]]:
    """Open a page in a browser; yield what it prints, which is complete at the end."""
    command = [sys.executable, "-m", "tests.perf.console_overhead", "--browse", url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    printed: list[str] = []
    try:
        yield printed
    finally:
        process.kill()
        printed += process.stdout.read().splitlines()
        process.wait()
        process.stdout.close()


class Measured:
    """A broker with a member of a group, and its rates."""

    def __init__(self, broker: ServedKafkalite, member: Membership) -> None:
        self._broker = broker
        self._frames = groups_commits.frames(_GROUP, member)

    def rate(self) -> float:
        """Return the commits per second of CPU time of the broker."""
        return pump(self._broker.port, self._broker.pid, self._frames, _SECONDS).per_cpu_second

    def log_requests(self, *, is_logged: bool) -> None:
        """Start or stop the log of requests."""
        path, body = ("/v1/requests?limit=1", None) if is_logged else ("/v1/requests/stop", b"{}")
        request = urllib.request.Request(  # noqa: S310 - the address is that of the broker
            f"{self._broker.control_url}{path}", body, {"content-type": "application/json"}
        )
        urllib.request.urlopen(request, timeout=_TIMEOUT_S).close()  # noqa: S310 - as above

    def with_page(self, path: str | None) -> tuple[float, int]:
        """Return the rate with an open page, if any, and how many times it was loaded again."""
        if path is None:
            return self.rate(), 0
        with open_page(f"{self._broker.control_url}/console{path}") as printed:
            rate = self.rate()
        return rate, len(printed)


class Row(NamedTuple):
    """The rates without and with an open page; those with the same index are a pair."""

    without: Sequence[float]
    opened: Sequence[float]
    loads: int
    """How many times the page was loaded again."""


def measure(name: str, pairs: int) -> Row:
    """Measure a page with a new broker."""
    without, opened, all_loads = [], [], 0
    with tempfile.TemporaryDirectory() as directory:
        broker = ServedKafkalite(Path(directory), control=True)
        try:
            start(broker)
            groups_commits.create_topic(broker.port)
            measured = Measured(broker, heartbeats.join(broker.port, _GROUP))
            for _ in range(pairs):
                without.append(measured.rate())
                if name in _LOGGED:
                    measured.log_requests(is_logged=True)
                rate, loads = measured.with_page(_PAGES[name])
                if name in _LOGGED:
                    measured.log_requests(is_logged=False)
                opened.append(rate)
                all_loads += loads
        finally:
            broker.kill()
    return Row(without, opened, all_loads)


def main() -> int:
    """Measure and print; with `--check`, exit with 1 if the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--browse", metavar="URL", help="only open a page, as a browser does")
    options = parser.parse_args()
    if options.browse:
        browse(options.browse)
        return 0
    missed = False
    for name in _PAGES:
        row = measure(name, options.pairs)
        ratios = [opened / without for without, opened in zip(row.without, row.opened, strict=True)]
        overhead = 1 - statistics.median(ratios)
        sys.stdout.write(
            f"{name}: {statistics.median(row.without):,.0f} per CPU second without, "
            f"{statistics.median(row.opened):,.0f} with, {overhead:+.1%}, "
            f"loaded {row.loads} times\n"
        )
        missed |= name != _LOG_ONLY and overhead > MAX_OVERHEAD
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
