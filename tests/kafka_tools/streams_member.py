"""`StreamsApplication.java` without Kafka Streams: a member of a streams group that counts words.

Arguments: bootstrap address, application id, input topic, output topic, directory of the state.
"""

from __future__ import annotations

import asyncio
import sys

from kafkalite.client import Producer, TopicPartition


async def _main(bootstrap: str, _: str, __: str, output: str, ___: str) -> None:
    async with Producer(bootstrap) as producer:
        for number in range(5):
            await producer.send(TopicPartition(output, 0), b"1", b"key-%d" % number)
        print("state RUNNING", flush=True)  # noqa: T201 - the output of a program
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
