"""Kafka's own tools for transactions: some tell of them and end them, some make them."""

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
from tests.conformance import transacting
from tests.conformance.raw import RawClient
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.oracle.target import Target

pytestmark = pytest.mark.client

_BEFORE_VERIFICATION = 11  # a version of Produce that adds no partition to a transaction


class Tools:
    """The tools at one broker; each must end well unless told otherwise."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.admin = AdminClient({"bootstrap.servers": target.bootstrap})

    def __call__(self, name: str, *arguments: str, text: str = "", status: int = 0) -> Output:
        output = run_tool(name, self.target.bootstrap, *arguments, text=text)
        assert output.status == status, output
        return output

    def ask(self, *arguments: str) -> list[dict[str, str]]:
        """Give the table that `kafka-transactions` prints, a row at a time."""
        heads, *rows = self("kafka-transactions", *arguments).rows
        return [dict(zip(heads, row, strict=True)) for row in rows]

    def create(self, *topics: str, partitions: int = 1) -> None:
        wanted = [NewTopic(topic, partitions, 1) for topic in topics]
        for made in self.admin.create_topics(wanted).values():
            made.result()

    def transactional(self, transactional_id: str) -> Producer:
        """Give a producer that could begin a transaction now."""
        producer = Producer(
            {"bootstrap.servers": self.target.bootstrap, "transactional.id": transactional_id}
        )
        producer.init_transactions()
        return producer

    def verify(self, is_wanted: str) -> None:
        """Say whether partitions ask the coordinator before they take transactional records."""
        entry = ConfigEntry(
            "transaction.partition.verification.enable",
            is_wanted,
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


def test_kafka_transactions_tells_of_an_open_transaction_and_ends_it(tools: Tools) -> None:
    tools.create("told")
    producer = tools.transactional("teller")
    producer.begin_transaction()
    producer.produce("told", b"a")
    assert producer.flush(10) == 0

    (listed,) = tools.ask("list", "--transactional-id-pattern", "tell.*")
    assert listed["TransactionalId"] == "teller"
    assert (listed["Coordinator"], listed["TransactionState"]) == ("1", "Ongoing")
    (described,) = tools.ask("describe", "--transactional-id", "teller")
    assert described["ProducerId"] == listed["ProducerId"]
    assert described["TransactionState"] == "Ongoing"
    assert described["TopicPartitions"] == "told-0"
    assert int(described["TransactionDurationMs"]) >= 0
    tools("kafka-transactions", "forceTerminateTransaction", "--transactionalId", "teller")
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction()
    assert refused.value.args[0].code() == KafkaError._FENCED


@pytest.fixture
def unverified(tools: Tools) -> Iterator[Tools]:
    """Have transactional records taken without a question, as brokers before Kafka 3.6 did."""
    tools.verify("false")
    yield tools
    tools.verify("true")


@pytest.mark.endurance
def test_a_hanging_transaction_is_found_and_aborted(unverified: Tools) -> None:
    tools = unverified
    tools.create("hung")
    tools.transactional("careless")
    with closing(RawClient(tools.target.port)) as client:
        started = client.call(transacting.initialise("careless"), transacting.OLD.init)
        producer = transacting.Producer(started.producer_id, started.producer_epoch)
        late = transacting.write("careless", producer, "hung", b"never committed")
        (topic,) = client.call(late, _BEFORE_VERIFICATION).responses
        assert topic.partition_responses[0].error_code == ErrorCode.NONE

        (found,) = tools.ask("find-hanging", "--topic", "hung")
        assert (found["Topic"], found["Partition"]) == ("hung", "0")
        assert found["ProducerId"] == str(producer.producer_id)
        assert found["StartOffset"] == "0"
        latest = transacting.latest("hung", 0)
        assert client.call(latest, 7).topics[0].partitions[0].offset == 0
        where = ("--topic", "hung", "--partition", "0")
        tools("kafka-transactions", "abort", *where, "--start-offset", found["StartOffset"])
        assert client.call(latest, 7).topics[0].partitions[0].offset == 2
        (state,) = tools.ask("describe-producers", *where)
        assert state["ProducerId"] == found["ProducerId"]
        assert state["CurrentTransactionStartOffset"] == "None"


@pytest.mark.endurance
def test_tools_that_write_and_read_in_transactions(tools: Tools) -> None:
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


@pytest.mark.endurance
def test_what_a_copier_copies_is_there_once(tools: Tools, tmp_path: Path) -> None:
    """The copier of Kafka's own system tests, which aborts at random."""
    count = "5000"
    tools.create("original", "copy")
    produced = tools(
        "kafka-verifiable-producer",
        *("--topic", "original", "--max-messages", count, "--throughput", "-1"),
    )
    assert _last(produced)["acked"] == int(count)
    copied = tools(
        "transactional-message-copier",
        *("--input-topic", "original", "--input-partition", "0", "--output-topic", "copy"),
        *("--max-messages", count, "--consumer-group", "copiers", "--transactional-id", "copier"),
        *("--transaction-size", "50", "--enable-random-aborts"),
    )
    assert _last(copied)["consumed"] == int(count)
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


def _last(output: Output) -> dict[str, int]:
    """Give what a tool said of its whole work."""
    told: dict[str, int] = json.loads(output.lines[-1])
    return told
