"""A program of a user: a broker in this process, and records through aiokafka and kafka-python.

It imports nothing from this project but the installed package, and warnings are errors for it.
"""

import asyncio
import subprocess
import sys
import warnings

from kafkalite.testing import Broker

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the clients
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from kafka import KafkaConsumer, TopicPartition

RECORDS = [b"two apples", b"a pear"]


async def exchange(bootstrap: str) -> list[bytes]:
    """Write records with aiokafka, and read them in a group."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for record in RECORDS:
            await producer.send_and_wait("orders", record, partition=0)
    consumer = AIOKafkaConsumer(
        "orders", bootstrap_servers=bootstrap, group_id="shop", auto_offset_reset="earliest"
    )
    async with consumer:
        received = [(await consumer.getone()).value for _ in RECORDS]
        await consumer.commit()
    return received


def read(bootstrap: str) -> list[bytes]:
    """Read the records with kafka-python."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=10_000
    )
    consumer.assign([TopicPartition("orders", 0)])
    received = [next(consumer).value for _ in RECORDS]
    consumer.close()
    return received


def main() -> None:
    """Exchange records with the broker in this process, and with `kafkalite serve`."""
    with Broker(topics={"orders": 1}, security="SSL") as secured:
        assert secured.client_config("librdkafka")
    with Broker(topics={"orders": 1}) as broker, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the clients
        assert asyncio.run(exchange(broker.bootstrap_servers)) == RECORDS
        assert read(broker.bootstrap_servers) == RECORDS
    command = [sys.executable, "-W", "error", "-m", "kafkalite", "serve", "--topic", "orders:1"]
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        bootstrap = process.stdout.readline().removeprefix("kafkalite is ready at ").split()[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the clients
            assert asyncio.run(exchange(bootstrap)) == RECORDS
        process.terminate()
    assert process.returncode == 0
    print(f"exchanged {len(RECORDS)} records")  # noqa: T201 - the output of a program


if __name__ == "__main__":
    main()
