"""Kafka's own tools that describe, end and use transactions."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from kafkalite.protocol.error_codes import ErrorCode
from tests.clients.tools import Output, run_tool
from tests.conformance import transactional_producer
from tests.conformance.raw import RawClient
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.oracle.target import Target

pytestmark = [pytest.mark.client, pytest.mark.endurance]

_BEFORE_VERIFICATION = 11  # a version of Produce that adds no partition to a transaction


class Tools:
    """The tools with one broker; each must exit with the given status, by default 0."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.admin = AdminClient({"bootstrap.servers": target.bootstrap})

    def __call__(self, name: str, *arguments: str, text: str = "", status: int = 0) -> Output:
        output = run_tool(name, self.target.bootstrap, *arguments, text=text)
        assert output.status == status, output
        return output

    def ask(self, *arguments: str) -> list[dict[str, str]]:
        """Return the rows of the table that `kafka-transactions` prints."""
        headings, *rows = self("kafka-transactions", *arguments).rows
        return [dict(zip(headings, row, strict=True)) for row in rows]

    def create(self, *topics: str, partitions: int = 1) -> None:
        requested = [NewTopic(topic, partitions, 1) for topic in topics]
        for future in self.admin.create_topics(requested).values():
            future.result()

    def transactional(self, transactional_id: str) -> Producer:
        """Return an initialised transactional producer."""
        producer = Producer(
            {"bootstrap.servers": self.target.bootstrap, "transactional.id": transactional_id}
        )
        producer.init_transactions()
        return producer

    def verify(self, setting: str) -> None:
        """Set whether leaders verify transactions before they append records."""
        entry = ConfigEntry(
            "transaction.partition.verification.enable",
            setting,
            incremental_operation=AlterConfigOpType.SET,
        )
        brokers = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        for altered in self.admin.incremental_alter_configs([brokers]).values():
            altered.result()


@pytest.fixture
def tools(broker: Target) -> Tools:
    with required():
        jar_directory()
    return Tools(broker)


def test_kafka_transactions_describes_and_ends_an_open_transaction(tools: Tools) -> None:
    tools.create("listed")
    producer = tools.transactional("listed-id")
    producer.begin_transaction()
    producer.produce("listed", b"a")
    assert producer.flush(10) == 0

    (listed,) = tools.ask("list", "--transactional-id-pattern", "listed.*")
    assert listed["TransactionalId"] == "listed-id"
    assert (listed["Coordinator"], listed["TransactionState"]) == ("1", "Ongoing")
    (described,) = tools.ask("describe", "--transactional-id", "listed-id")
    assert described["ProducerId"] == listed["ProducerId"]
    assert described["TransactionState"] == "Ongoing"
    assert described["TopicPartitions"] == "listed-0"
    assert int(described["TransactionDurationMs"]) >= 0
    tools("kafka-transactions", "forceTerminateTransaction", "--transactionalId", "listed-id")
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction()
    assert refused.value.args[0].code() == KafkaError._FENCED


@pytest.fixture
def unverified(tools: Tools) -> Iterator[Tools]:
    """Disable the verification of transactions, as before Kafka 3.6."""
    tools.verify("false")
    yield tools
    tools.verify("true")


def test_a_hanging_transaction_is_found_and_aborted(unverified: Tools) -> None:
    tools = unverified
    tools.create("hung")
    tools.transactional("careless")
    with closing(RawClient(tools.target.port)) as client:
        started = client.call(
            transactional_producer.init_producer_id("careless"), transactional_producer.OLD.init
        )
        producer = transactional_producer.Producer(started.producer_id, started.producer_epoch)
        late = transactional_producer.write("careless", producer, "hung", b"never committed")
        (topic,) = client.call(late, _BEFORE_VERIFICATION).responses
        assert topic.partition_responses[0].error_code == ErrorCode.NONE

        (hanging,) = tools.ask("find-hanging", "--topic", "hung")
        assert (hanging["Topic"], hanging["Partition"]) == ("hung", "0")
        assert hanging["ProducerId"] == str(producer.producer_id)
        assert hanging["StartOffset"] == "0"
        latest = transactional_producer.latest("hung", 0)
        assert client.call(latest, 7).topics[0].partitions[0].offset == 0
        partition_options = ("--topic", "hung", "--partition", "0")
        tools(
            "kafka-transactions",
            "abort",
            *partition_options,
            "--start-offset",
            hanging["StartOffset"],
        )
        assert client.call(latest, 7).topics[0].partitions[0].offset == 2
        (state,) = tools.ask("describe-producers", *partition_options)
        assert state["ProducerId"] == hanging["ProducerId"]
        assert state["CurrentTransactionStartOffset"] == "None"


def test_tools_write_and_read_in_transactions(tools: Tools) -> None:
    count = "3000"
    tools.create("measured-writes")
    undecided = tools.transactional("undecided")
    undecided.begin_transaction()
    undecided.produce("measured-writes", b"never meant")
    assert undecided.flush(10) == 0
    written = tools(
        "kafka-producer-perf-test",
        *("--topic", "measured-writes", "--num-records", count, "--throughput", "-1"),
        *("--payload-monotonic", "--transactional-id", "measurer"),
        *("--transaction-duration-ms", "10"),
    )
    assert written.lines[-1].startswith(f"{count} records sent")
    undecided.abort_transaction()
    read = tools(
        "kafka-console-consumer",
        *("--topic", "measured-writes", "--isolation-level", "read_committed"),
        *("--from-beginning", "--max-messages", count),
    )
    assert read.lines == [str(number) for number in range(int(count))]


def test_copied_records_are_there_once(tools: Tools, tmp_path: Path) -> None:
    """The transactional copier of Kafka's own system tests aborts at random."""
    count = "5000"
    tools.create("original", "copy")
    produced = tools(
        "kafka-verifiable-producer",
        *("--topic", "original", "--max-messages", count, "--throughput", "-1"),
    )
    assert _totals(produced)["acked"] == int(count)
    copied = tools(
        "transactional-message-copier",
        *("--input-topic", "original", "--input-partition", "0", "--output-topic", "copy"),
        *("--max-messages", count, "--consumer-group", "copiers", "--transactional-id", "copier"),
        *("--transaction-size", "50", "--enable-random-aborts"),
    )
    assert _totals(copied)["consumed"] == int(count)
    settings = tmp_path / "reader.properties"
    settings.write_text("isolation.level=read_committed\n")
    consumed = tools(
        "kafka-verifiable-consumer",
        *("--topic", "copy", "--group-id", "verifiers", "--max-messages", count, "--verbose"),
        *("--command-config", str(settings)),
    )
    rows = [json.loads(line) for line in consumed.lines]
    values = [int(row["value"]) for row in rows if row["name"] == "record_data"]
    assert values == list(range(int(count)))


def _totals(output: Output) -> dict[str, int]:
    """Return the totals that a tool printed."""
    totals: dict[str, int] = json.loads(output.lines[-1])
    return totals
