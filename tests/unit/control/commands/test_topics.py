"""Commands about topics."""

from __future__ import annotations

import pytest

from kafkalite.config.typed_json import read
from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.topics import CreateTopic, DeleteTopic, ListTopics, ShowTopic
from kafkalite.control.topic_records import UnknownTopicError
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from tests.unit.control.ports import ANY_PORT


async def test_topics_are_created_shown_listed_and_deleted() -> None:
    broker = Broker(Settings(listen=ANY_PORT, brokers=2))
    await broker.start()
    try:
        fields = {"name": "orders", "partitions": 2, "config": {"retention.ms": "1000"}}
        created = await read(CreateTopic, fields, "a topic").perform(broker)
        assert (created.name, created.config, len(created.partitions)) == (
            "orders", {"retention.ms": "1000"}, 2,
        )  # fmt: skip
        (first, _) = created.partitions
        assert (first.partition, first.leader_epoch, first.start_offset, first.end_offset) == (
            0, 0, 0, 0,
        )  # fmt: skip
        await CreateTopic("copies", 1, replication_factor=2).perform(broker)
        listed = (await ListTopics().perform(broker)).topics
        assert [(each.name, each.partitions, each.replication_factor) for each in listed] == [
            ("copies", 1, 2), ("orders", 2, 1),
        ]  # fmt: skip
        assert await ShowTopic("orders").perform(broker) == created
        deleted = await DeleteTopic("orders").perform(broker)
        assert deleted.topic_id == created.topic_id
        with pytest.raises(UnknownTopicError, match=r"there is no topic 'orders'$"):
            await ShowTopic("orders").perform(broker)
        with pytest.raises(UnknownTopicError, match="similar names are copies"):
            await DeleteTopic("copie").perform(broker)
    finally:
        await broker.stop()


async def test_the_error_of_kafka_is_the_reason_of_a_refusal() -> None:
    broker = Broker(Settings(listen=ANY_PORT, topics={"orders": 1}))
    await broker.start()
    try:
        with pytest.raises(CommandError, match=r"^TOPIC_ALREADY_EXISTS: Topic 'orders' already"):
            await CreateTopic("orders").perform(broker)
        with pytest.raises(CommandError, match="INVALID_CONFIG: Unknown topic config name: nope"):
            await CreateTopic("other", config={"nope": "1"}).perform(broker)
        with pytest.raises(CommandError, match="INVALID_REPLICATION_FACTOR"):
            await CreateTopic("other", replication_factor=3).perform(broker)
    finally:
        await broker.stop()
    with pytest.raises(CommandError, match="must be the name of a topic, not 'a b'"):
        CreateTopic("a b")
    with pytest.raises(CommandError, match="not running"):
        await ListTopics().perform(broker)
