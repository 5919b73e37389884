"""Options and figures that both tools which measure consumers have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.docker.tools.arguments import is_given
from kafkalite.docker.tools.pacing import BYTES_PER_MB, DATE_FORMAT
from kafkalite.docker.tools.running import write_line
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from argparse import Namespace

    from kafkalite.client.records import ConsumerRecord
    from kafkalite.docker.tools.arguments import ToolParser
    from kafkalite.docker.tools.pacing import Pace

_RECORDS: Final = ("messages", "num-records")
_CONFIGS: Final = ("consumer.config", "command-config")


def add_measuring_options(parser: ToolParser) -> None:
    """Add the options of both tools."""
    parser.add_argument("--bootstrap-server", "--broker-list", metavar="LIST")
    parser.add_values("topic", "group")
    parser.add_values(*_CONFIGS, metavar="FILE")
    parser.add_values(*_RECORDS, type=int)
    parser.add_values("date-format", default=DATE_FORMAT)
    parser.add_values("timeout", type=int, default=10_000)
    parser.add_values("reporting-interval", type=int, default=5_000)
    parser.add_values("threads", type=int, default=1)
    # These set the buffers of Java's client.
    parser.add_values("fetch-size", "socket-buffer-size", type=int)
    parser.add_values("command-property", many=True, metavar="NAME=VALUE")
    parser.add_switches("show-detailed-stats", "hide-header", "print-metrics")


def check_measuring_options(parser: ToolParser, parsed: Namespace) -> None:
    """Raise UsageError for options that Kafka's tools refuse, and warn of old ones."""
    if parsed.bootstrap_server is None:
        parser.error('Missing required argument "[bootstrap-server]"')
    parser.single(
        parsed,
        _RECORDS,
        "Exactly one of the following arguments is required: [messages], [num-records]",
    )
    if parsed.reporting_interval <= 0:
        parser.error("Reporting interval must be greater than 0.")
    if parsed.threads <= 0:
        parser.error("--threads must be greater than 0")
    if parsed.print_metrics:
        parser.error("--print-metrics prints metrics of Java's client, which is not used here")
    if parsed.messages is not None:
        write_line("Warning: --messages is deprecated. Use --num-records instead.")
        parsed.num_records = parsed.messages
    if all(is_given(parsed, each) for each in _CONFIGS):
        parser.error('Option "[consumer.config]" can\'t be used with option "[command-config]"')
    old_config = getattr(parsed, "consumer.config")
    if old_config is not None:
        write_line("Warning: --consumer.config is deprecated. Use --command-config instead.")
        parsed.command_config = old_config


def warn_of_missing_records(parsed: Namespace, records: int) -> None:
    """Print that fewer records have arrived than expected."""
    if records < parsed.num_records:
        write_line(
            "WARNING: Exiting before consuming the expected number of records: timeout "
            f"({parsed.timeout} ms) exceeded. You can use the --timeout option to increase the "
            "timeout."
        )


class Interval(NamedTuple):
    """What was read in an interval of reports."""

    start_ms: int
    end_ms: int
    records: int
    size: int

    @property
    def elapsed_ms(self) -> int:
        """The length, at least a millisecond."""
        return max(1, self.end_ms - self.start_ms)

    @property
    def megabytes(self) -> float:
        """The size of the records in MB."""
        return self.size / BYTES_PER_MB

    def per_second(self, amount: float) -> float:
        """Return an amount a second."""
        return 1_000 * amount / self.elapsed_ms


class ReadFigures:
    """The records that a consumer has read, and the bytes of their keys and values."""

    def __init__(self, pace: Pace, interval_ms: int) -> None:
        self._pace = pace
        self._interval_ms = interval_ms
        self._reported = Interval(pace.start_ms, pace.start_ms, 0, 0)
        self.records = self.size = 0

    def add(self, record: ConsumerRecord) -> Interval | None:
        """Add a record, and return the interval if it is time for a report."""
        self.records += 1
        self.size += len(record.key or b"") + len(record.value or b"")
        now_ms = self._pace.now_ms()
        last = self._reported
        if now_ms - last.end_ms < self._interval_ms:
            return None
        self._reported = Interval(last.end_ms, now_ms, self.records, self.size)
        return Interval(last.end_ms, now_ms, self.records - last.records, self.size - last.size)

    def total(self) -> Interval:
        """Return everything that was read so far as one interval."""
        return Interval(self._pace.start_ms, self._pace.now_ms(), self.records, self.size)
