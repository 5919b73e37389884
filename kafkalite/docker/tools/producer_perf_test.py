"""`kafka-producer-perf-test`: send many records, and measure throughput and latency."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final

from kafkalite.client.client import KafkaClient
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import BrokerError
from kafkalite.client.producer import Producer
from kafkalite.client.records import ProducerRecord
from kafkalite.client.topics import created_partition_count
from kafkalite.docker.tools.arguments import (
    ToolError,
    ToolParser,
    access_in,
    add_bootstrap_options,
    addresses_of,
    client_properties,
    file_text,
    is_idempotent,
)
from kafkalite.docker.tools.exceptions import exception_text
from kafkalite.docker.tools.pacing import BYTES_PER_MB, Pace, percentile
from kafkalite.docker.tools.running import run_tool, write_error, write_line
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

_MAX_BATCH_BYTES: Final = 16_384
_REPORT_MS: Final = 5_000
_OF_RECORDS: Final = frozenset(
    (ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_TIMESTAMP)
)
"""Errors of single records, after which Kafka's tool continues."""
_PERCENTILES: Final = ((0.5, "50th"), (0.95, "95th"), (0.99, "99th"), (0.999, "99.9th"))


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, arguments)
        asyncio.run(_measure(parsed, environment, _values(parsed, environment)))
        return 0

    return run_tool(name, command)


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Send many records, and measure throughput and latency.")
    add_bootstrap_options(parser, config="--producer.config")
    parser.add_values("topic", "payload-file", "transactional-id")
    parser.add_values("payload-delimiter", default="\\n")
    parser.add_values("num-records", "record-size", "transaction-duration-ms", type=int)
    parser.add_values("throughput", type=float)
    parser.add_values("warmup-records", "random-seed", type=int, default=0)
    parser.add_values("reporting-interval", type=int, default=_REPORT_MS)
    parser.add_values("record-key-range", type=int)
    parser.add_values("key-distribution", default="none", choices=("none", "range", "random"))
    parser.add_argument("--producer-props", nargs="+", default=[], metavar="NAME=VALUE")
    parser.add_values("command-property", many=True, metavar="NAME=VALUE")
    parser.add_switches("print-metrics", "payload-monotonic")
    parsed = parser.parse(arguments)
    for option in ("topic", "num-records", "throughput"):
        if getattr(parsed, option.replace("-", "_")) is None:
            parser.error(f"argument --{option} is required")
    sources = (parsed.record_size is not None, parsed.payload_file is not None,
               parsed.payload_monotonic)  # fmt: skip
    if sum(sources) != 1:
        parser.error(
            "one of the arguments --record-size --payload-file --payload-monotonic is required"
        )
    if parsed.print_metrics:
        parser.error("--print-metrics prints metrics of Java's client, which is not used here")
    _check_ranges(parser, parsed)
    return parsed


def _check_ranges(parser: ToolParser, parsed: Namespace) -> None:
    """Raise UsageError for numbers that Kafka's tool refuses."""
    key_range = parsed.record_key_range
    for option in ("num-records", "record-size"):
        value = getattr(parsed, option.replace("-", "_"))
        if value is not None and value <= 0:
            parser.error(f"--{option} should be greater than zero.")
    if parsed.warmup_records and parsed.warmup_records >= parsed.num_records:
        parser.error(
            "The value for --warmup-records must be strictly fewer than the number of records in "
            "the test, --num-records."
        )
    if parsed.reporting_interval <= 0:
        parser.error("--reporting-interval should be greater than zero.")
    if key_range is not None and key_range <= 0:
        parser.error("--record-key-range should be greater than zero.")
    if parsed.key_distribution == "none" and key_range is not None:
        parser.error(
            "--key-distribution must be 'range' or 'random' when --record-key-range is specified."
        )
    if parsed.key_distribution != "none" and key_range is None:
        parser.error(
            "--record-key-range is required when --key-distribution is 'range' or 'random'."
        )


def _values(parsed: Namespace, environment: Mapping[str, str]) -> list[bytes]:
    """Return the values that are sent in turns; raises ToolError."""
    if parsed.payload_file is not None:
        text = file_text(parsed.payload_file, environment)
        delimiter = parsed.payload_delimiter.replace("\\n", "\n").replace("\\t", "\t")
        values = [each.encode() for each in text.split(delimiter) if each]
        if not values:
            raise ToolError("Payload file does not contain any records")
        return values
    if parsed.payload_monotonic:
        return [str(number).encode() for number in range(parsed.num_records)]
    letters = random.Random(parsed.random_seed)  # noqa: S311 - values that can be repeated
    return [bytes(letters.choices(range(ord("A"), ord("Z") + 1), k=parsed.record_size))]


async def _measure(
    parsed: Namespace, environment: Mapping[str, str], values: Sequence[bytes]
) -> None:
    given = [*parsed.producer_props, *parsed.command_property]
    properties = client_properties(parsed.client_config, environment, given)
    servers = parsed.bootstrap_server or properties.get("bootstrap.servers")
    addresses = addresses_of(servers)
    access = access_in({"client.id": "perf-producer-client", **properties}, parsed.client_config)
    async with KafkaClient(addresses, access) as client:
        count = await created_partition_count(client, parsed.topic)
    transactional_id = parsed.transactional_id or properties.get("transactional.id")
    if transactional_id is None and parsed.transaction_duration_ms:
        transactional_id = f"performance-producer-{SystemEntropy().uuid().hex()}"
    acks = properties.get("acks", "all")
    async with Producer(
        ",".join(map(str, addresses)),
        acks=1 if acks == "1" else 0 if acks == "0" else "all",
        compression=properties.get("compression.type", "none"),
        is_idempotent=is_idempotent(properties, acks),
        transactional_id=transactional_id,
        access=access,
    ) as producer:
        if parsed.warmup_records:
            write_line(
                f"Warmup first {parsed.warmup_records} records. Steady state results will print "
                "after the complete test summary."
            )
        pace = Pace(parsed.throughput)
        figures = _Figures(pace, parsed.reporting_interval, parsed.warmup_records)
        await _send(parsed, producer, values, count, figures)
    figures.report_total()


async def _send(
    parsed: Namespace,
    producer: Producer,
    values: Sequence[bytes],
    partition_count: int,
    figures: _Figures,
) -> None:
    loop = asyncio.get_running_loop()
    is_transactional = producer.is_transactional
    transaction_start_ms = figures.pace.now_ms()
    batch_size = max(1, _MAX_BATCH_BYTES // max(1, *map(len, values)))
    if parsed.throughput > 0:
        batch_size = max(1, min(batch_size, int(parsed.throughput / 10)))
    keys = _Keys(parsed)
    sent = turn = 0
    is_open = False
    while sent < parsed.num_records:
        await figures.pace.wait(sent)
        if is_transactional and not is_open:
            await producer.begin()
            is_open, transaction_start_ms = True, figures.pace.now_ms()
        # A batch is a part of the warmup, or of the steady state.
        limit = parsed.warmup_records if sent < parsed.warmup_records else parsed.num_records
        number = min(batch_size, limit - sent)
        batch = [
            ProducerRecord(values[each % len(values)], keys.of(each))
            for each in range(sent, sent + number)
        ]
        start_s = loop.time()
        try:
            await producer.send_batch(TopicPartition(parsed.topic, turn % partition_count), batch)
        except BrokerError as error:
            _report(error, number)
        else:
            latency_ms = (loop.time() - start_s) * 1_000
            figures.add(number, sum(len(each.value or b"") for each in batch), latency_ms)
        sent, turn = sent + number, turn + 1
        duration_ms = figures.pace.now_ms() - transaction_start_ms
        if is_open and duration_ms >= (parsed.transaction_duration_ms or 3_000):
            await producer.end(commits=True)
            is_open = False
    if is_open:
        await producer.end(commits=True)


def _report(error: BrokerError, number: int) -> None:
    """Print the exception of each record that the broker refuses; raises it in other cases."""
    if error.code not in _OF_RECORDS:
        raise error
    for _ in range(number):
        write_error(exception_text(error.code, error.reason))


class _Keys:
    """The keys of records: numbers of a range, or none."""

    def __init__(self, parsed: Namespace) -> None:
        self._range = parsed.record_key_range
        self._random = random.Random(parsed.random_seed)  # noqa: S311 - keys that can be repeated
        self._is_random = parsed.key_distribution == "random"

    def of(self, number: int) -> bytes | None:
        """Return the key of a record by its number."""
        if self._range is None:
            return None
        chosen = self._random.randrange(self._range) if self._is_random else number % self._range
        return chosen.to_bytes(4)


class _Figures:
    """Throughput and latencies, of all records and of those since the last report."""

    def __init__(self, pace: Pace, interval_ms: int, warmup_records: int) -> None:
        self.pace = pace
        self._interval_s = interval_ms / 1_000
        self._warmup_records = warmup_records
        self._records = self._bytes = 0
        self._latencies: list[tuple[float, int]] = []
        """The latency of each batch, and its number of records."""
        self._report_s = 0.0
        self._reported = (0, 0, 0)
        self._steady = (0, 0, 0)
        """The records, bytes and batches of the warmup, and the time of its end below."""
        self._steady_s = 0.0

    def add(self, records: int, size: int, latency_ms: float) -> None:
        """Add a batch, and report in intervals."""
        self._records += records
        self._bytes += size
        self._latencies.append((latency_ms, records))
        if self._records == self._warmup_records:
            self._steady = (self._records, self._bytes, len(self._latencies))
            self._steady_s = self.pace.elapsed_s
            write_line("In steady state.")
        if self.pace.elapsed_s - self._report_s >= self._interval_s:
            self._report_window()

    def _report_window(self) -> None:
        records, size, batches = self._reported
        elapsed_s = self.pace.elapsed_s - self._report_s
        sent = self._records - records
        latencies = [latency for latency, _ in self._latencies[batches:]]
        write_line(
            f"{sent} records sent, {sent / elapsed_s:.1f} records/sec "
            f"({(self._bytes - size) / BYTES_PER_MB / elapsed_s:.2f} MB/sec), "
            f"{sum(latencies) / len(latencies):.1f} ms avg latency, "
            f"{max(latencies):.1f} ms max latency."
        )
        self._report_s = self.pace.elapsed_s
        self._reported = (self._records, self._bytes, len(self._latencies))

    def report_total(self) -> None:
        """Print the figures of all records, and those of the steady state after a warmup."""
        self._report_since((0, 0, 0), 0.0, "")
        if self._warmup_records:
            self._report_since(self._steady, self._steady_s, " steady state")

    def _report_since(self, start: tuple[int, int, int], start_s: float, title: str) -> None:
        records, size, batches = start
        sent = self._records - records
        elapsed_s = max(0.001, self.pace.elapsed_s - start_s)
        latencies = sorted(
            each for each, number in self._latencies[batches:] for _ in range(number)
        )
        average = sum(latencies) / len(latencies) if latencies else 0.0
        shares = ", ".join(
            f"{percentile(latencies, share):.0f} ms {name}" for share, name in _PERCENTILES
        )
        write_line(
            f"{sent}{title} records sent, {sent / elapsed_s:.6f} records/sec "
            f"({(self._bytes - size) / BYTES_PER_MB / elapsed_s:.2f} MB/sec), {average:.2f} ms avg "
            f"latency, {latencies[-1] if latencies else 0:.2f} ms max latency, {shares}."
        )
