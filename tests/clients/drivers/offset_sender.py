"""A librdkafka producer that sends offsets in transactions, one transaction after the other.

The only argument is a JSON object (`SenderTask`). The program prints `ready` when its producer is
initialised, `sending` before each send_offsets_to_transaction, `sent` after it, `committed N` after
the commit of offset N, and `replaced REASON` when it replaces a producer after a fatal error. If it
ends without being killed, it prints `failed REASON` first. librdkafka's log goes to stderr.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.clients.drivers.worker import last_words, say

if TYPE_CHECKING:
    from collections.abc import Callable


class SenderTask(NamedTuple):
    """The arguments of one sender."""

    bootstrap: str
    transactional_id: str
    group: str
    topic: str
    recovery: str
    """The value of metadata.recovery.strategy."""
    debug: str
    """The contexts that librdkafka logs; empty for none."""


class AbortRequiredError(Exception):
    """The current transaction must be aborted."""


class FatalError(Exception):
    """The producer cannot be used any more."""


def main(task: SenderTask) -> None:
    """Send offsets until the process is killed; a producer that fails is replaced."""
    config: dict[str, str | int] = {
        "bootstrap.servers": task.bootstrap,
        "metadata.recovery.strategy": task.recovery,
        "reconnect.backoff.max.ms": 500,
        "transactional.id": task.transactional_id,
        "linger.ms": 0,
    }
    if task.debug:
        config["debug"] = task.debug
    consumer = Consumer({"bootstrap.servers": task.bootstrap, "group.id": task.group})
    metadata = consumer.consumer_group_metadata()
    offsets = itertools.count(1)
    while True:
        producer = Producer(config)
        try:
            _repeat(producer.init_transactions)
            say("ready")
            for offset in offsets:
                _send(producer, metadata, TopicPartition(task.topic, 0, offset))
        except FatalError as reason:
            say(f"replaced {reason}")


def _send(producer: Producer, metadata: object, offset: TopicPartition) -> None:
    """Send an offset and a record in one transaction."""
    try:
        producer.begin_transaction()
        producer.produce(offset.topic, f"{offset.offset}", partition=0)
        say("sending")
        _repeat(lambda: producer.send_offsets_to_transaction([offset], metadata))
        say("sent")
        _repeat(producer.commit_transaction)
    except AbortRequiredError as reason:
        sys.stderr.write(f"{reason}\n")
        _repeat(producer.abort_transaction)
    else:
        say(f"committed {offset.offset}")


def _repeat(call: Callable[[], object]) -> None:
    """Call until the client reports success; AbortRequiredError is raised if it must abort."""
    while True:
        try:
            call()
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            if error.fatal():
                raise FatalError(str(error)) from None
            if error.txn_requires_abort():
                raise AbortRequiredError(str(error)) from None
            if not error.retriable():
                raise
        else:
            return


if __name__ == "__main__":
    try:
        main(SenderTask(**json.loads(sys.argv[1])))
    except BaseException as failure:  # noqa: BLE001 - reported to the test
        last_words(failure)
