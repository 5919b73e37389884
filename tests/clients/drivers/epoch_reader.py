"""A reader of one partition with kafkalite's own client; `partition_readers` describes it."""

from __future__ import annotations

import asyncio
import sys

from kafkalite.client import Backoff, ClientError, FetchLimits, PartitionConsumer, TopicPartition

_POLL_MS = 200


async def main(arguments: list[str]) -> None:
    """Read partition 0 of a topic until the process is killed, or the position is invalid."""
    servers, topic, offset, epoch, _ = arguments
    first = TopicPartition(topic, 0)
    consumer = PartitionConsumer(
        servers,
        auto_offset_reset="earliest",
        limits=FetchLimits(max_wait_ms=50),
        metadata_max_age_ms=100,
        backoff=Backoff(10, 100),
    )
    async with consumer:
        consumer.assign([first, TopicPartition(topic, 1)])
        consumer.seek(first, int(offset), None if epoch == "-1" else bytes.fromhex(epoch))
        _say("ready")
        while True:
            try:
                records = await consumer.poll(_POLL_MS)
            except ClientError as error:
                _say(f"failed {type(error).__name__}")
                return
            for record in records:
                if record.partition == first:
                    _say(f"record {record.offset} {(record.value or b'').decode()}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
