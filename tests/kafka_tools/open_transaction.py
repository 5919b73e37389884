"""`OpenTransaction.java` with kafkalite's client: a transaction that stays open."""

from __future__ import annotations

import asyncio
import sys

from kafkalite.client import Producer, TopicPartition


async def _main(bootstrap: str, transactional_id: str, topic: str) -> None:
    async with Producer(bootstrap, transactional_id=transactional_id) as producer:
        await producer.begin()
        await producer.send(TopicPartition(topic, 0), b"value")
        print("open", flush=True)  # noqa: T201 - the output of a program
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
