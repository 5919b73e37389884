"""`kafka-replica-verification`: compare the records of the replicas of each partition."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.client import KafkaClient
from kafkalite.client.connection import UnreachableError
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.offsets import LATEST, list_offsets
from kafkalite.client.retries import wait_until
from kafkalite.client.topics import list_topics
from kafkalite.docker.tools.arguments import KafkaToolError, ToolError, ToolParser, addresses_of
from kafkalite.docker.tools.running import run_tool, write_line, write_log
from kafkalite.docker.tools.termination import ends_by_sigterm
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address
from kafkalite.storage.batch import split_batches

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.client.topics import TopicDescription
    from kafkalite.storage.batch import BatchView

_DEBUGGING_CONSUMER: Final = -2
"""The id of a replica that may read from followers, and up to the end of the log."""
_FETCH_VERSIONS: Final = Versions(4, 14)
"""Versions whose requests have the id of the replica in the field of all versions."""
_MEGABYTE: Final = 1024 * 1024
_NO_OFFSET: Final = -1


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    del environment

    def command() -> int:
        parsed = _parse(name, arguments)
        asyncio.run(_run(parsed))
        return 0

    return run_tool(name, command)


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Validate that all replicas for a set of topics have the same data.")
    parser.add_values("broker-list")
    parser.add_values("topics-include", default=".*")
    parser.add_values("fetch-size", type=int, default=_MEGABYTE)
    parser.add_values("max-wait-ms", type=int, default=1_000)
    parser.add_values("report-interval-ms", type=int, default=30_000)
    parser.add_values("time", type=int, default=LATEST)
    parsed = parser.parse(arguments)
    if parsed.broker_list is None:
        parser.error('Missing required argument "[broker-list]"')
    try:
        parsed.topics = re.compile(parsed.topics_include.replace(",", "|").strip())
    except re.error:
        raise KafkaToolError(f"{parsed.topics_include} is an invalid regex") from None
    return parsed


async def _run(parsed: Namespace) -> None:
    write_log("WARN", "This tool is deprecated and may be removed in a future major release.")
    async with KafkaClient(addresses_of(parsed.broker_list)) as client:
        topics = [each for each in await list_topics(client) if parsed.topics.fullmatch(each.name)]
        if not topics:
            raise ToolError(
                f"No topics found. --topics-include {parsed.topics_include!r} matches none"
            )
        replicas = {
            TopicPartition(topic.name, each.partition): each.replicas
            for topic in topics
            for each in topic.partitions
        }
        starts = await list_offsets(client, dict.fromkeys(replicas, parsed.time))
        verification = Verification(client, topics, replicas, parsed)
        verification.offsets = {each: row.offset for each, row in starts.items()}
        verification.report("verification process is started")
        await ends_by_sigterm(verification.run())


class Fetched(NamedTuple):
    """The answer of a replica."""

    high_watermark: int = _NO_OFFSET
    batches: Sequence[BatchView] = ()


class Verification:
    """Reads all replicas up to the high watermark, and compares their batches."""

    def __init__(
        self,
        client: KafkaClient,
        topics: Iterable[TopicDescription],
        replicas: Mapping[TopicPartition, Sequence[int]],
        parsed: Namespace,
    ) -> None:
        self._client = client
        self._topic_ids = {each.name: each.topic_id for each in topics}
        self._replicas = replicas
        self._parsed = parsed
        self._clock = AdjustableClock()
        self.offsets: dict[TopicPartition, int] = {}
        """The next offset of each partition that is compared."""

    def report(self, text: str) -> None:
        """Print a line with the time."""
        moment = datetime.fromtimestamp(self._clock.now_ms() / 1_000, tz=UTC)
        write_line(f"{moment.strftime('%Y-%m-%d %H:%M:%S,%f')[:-3]}: {text}")

    async def run(self) -> None:
        """Compare again and again, and report the largest lag in intervals."""
        brokers = {
            each.node_id: Address(each.host, each.port)
            for each in (await self._client.metadata()).brokers
        }
        reported_ms = self._clock.now_ms()
        while True:
            answers = await asyncio.gather(*(self._fetch(*each) for each in brokers.items()))
            by_replica = dict(zip(brokers, answers, strict=True))
            lags = {each: self.compare(each, by_replica) for each in self.offsets}
            now_ms = self._clock.now_ms()
            if now_ms - reported_ms > self._parsed.report_interval_ms:
                partition = max(lags, key=lambda each: lags[each])
                self.report(
                    f"max lag is {lags[partition]} for partition {partition} at offset "
                    f"{self.offsets[partition]} among {len(lags)} partitions"
                )
                reported_ms = now_ms

    async def _fetch(self, node_id: int, address: Address) -> dict[TopicPartition, Fetched]:
        """Return the answers of a broker; empty if it cannot be reached."""
        topics: dict[str, FetchRequest.FetchTopic] = {}
        for partition, offset in self.offsets.items():
            if node_id in self._replicas[partition]:
                name, index = partition
                topic = FetchRequest.FetchTopic(topic=name, topic_id=self._topic_ids[name])
                topics.setdefault(name, topic).partitions.append(
                    FetchRequest.FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=self._parsed.fetch_size,
                    )
                )
        request = FetchRequest(
            replica_id=_DEBUGGING_CONSUMER,
            max_wait_ms=self._parsed.max_wait_ms,
            min_bytes=1,
            topics=list(topics.values()),
        )
        try:
            response = await self._client.ask(address, request, _FETCH_VERSIONS)
        except UnreachableError:
            await wait_until(self._clock, self._clock.now_ms() + self._parsed.max_wait_ms)
            return {}
        names = {topic_id: name for name, topic_id in self._topic_ids.items()}
        return {
            TopicPartition(topic.topic or names[topic.topic_id], row.partition_index): _fetched(row)
            for topic in response.responses
            for row in topic.partitions
        }

    def compare(
        self,
        partition: TopicPartition,
        answers: Mapping[int, Mapping[TopicPartition, Fetched]],
    ) -> int:
        """Compare the next batches of the replicas, and return the lag of what is compared.

        Raises KafkaToolError if the replicas have batches with different offsets.
        """
        found = {
            node_id: answers.get(node_id, {}).get(partition, Fetched())
            for node_id in self._replicas[partition]
        }
        for batches in zip(*(each.batches for each in found.values()), strict=False):
            limits = (each.high_watermark for each in found.values())
            if any(
                batch.last_offset >= limit for batch, limit in zip(batches, limits, strict=True)
            ):
                break
            self._compare_batches(partition, dict(zip(found, batches, strict=True)))
            self.offsets[partition] = batches[0].last_offset + 1
        return max(each.high_watermark for each in found.values()) - self.offsets[partition]

    def _compare_batches(self, partition: TopicPartition, batches: Mapping[int, BatchView]) -> None:
        (first, expected), *others = batches.items()
        for node_id, batch in others:
            if batch.last_offset != expected.last_offset:
                self.report(
                    f"partition {partition}: replica {first}'s offset {expected.last_offset} "
                    f"doesn't match replica {node_id}'s offset {batch.last_offset}"
                )
                raise SystemExit(1)
            if batch.crc != expected.crc:
                self.report(
                    f"partition {partition} has unmatched checksum at offset {batch.last_offset}; "
                    f"replica {first}'s checksum {expected.crc}; replica {node_id}'s checksum "
                    f"{batch.crc}"
                )


def _fetched(row: Any) -> Fetched:  # noqa: ANN401 - of the response
    if row.error_code:
        raise ToolError(f"a replica cannot be read: {ErrorCode(row.error_code).message}")
    return Fetched(row.high_watermark, split_batches(bytes(row.records or b"")))
