"""Topics of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.errors import BrokerError, UnknownNameError
from kafkalite.client.topics import (
    create_topic,
    created_partition_count,
    delete_topics,
    extend_topic,
    find_topic,
    list_topics,
    topic_configs,
)
from kafkalite.protocol._generated.messages.metadata import MetadataResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(brokers=2) as running:
        yield running


def client_of(broker: Broker) -> KafkaClient:
    return KafkaClient(bootstrap_addresses(broker.bootstrap_servers))


async def test_topic_is_created_described_extended_and_deleted(broker: Broker) -> None:
    async with client_of(broker) as client:
        settings = {"retention.ms": "5"}
        await create_topic(client, "paid", partitions=2, replication_factor=2, configs=settings)
        assert [each.name for each in await list_topics(client)] == ["paid"]
        paid = await find_topic(client, "paid")
        assert [each.partition for each in paid.partitions] == [0, 1]
        assert {each.leader for each in paid.partitions} == {1, 2}
        assert all(sorted(each.isr) == [1, 2] for each in paid.partitions)
        assert paid.replication_factor == 2
        assert not paid.is_internal
        configs = {each.name: each for each in await topic_configs(client, "paid")}
        assert configs["retention.ms"] == ("retention.ms", "5", False)
        assert configs["segment.bytes"].is_default
        await extend_topic(client, "paid", 3)
        assert len((await find_topic(client, "paid")).partitions) == 3
        assert await delete_topics(client, ["paid"]) == {"paid": None}
        assert await list_topics(client) == []


@pytest.mark.usefixtures("old_versions")
async def test_old_brokers_are_supported(broker: Broker) -> None:
    async with client_of(broker) as client:
        await create_topic(client, "old", partitions=2, replication_factor=1, configs={})
        await extend_topic(client, "old", 3)
        topic = await find_topic(client, "old")
        assert (len(topic.partitions), topic.replication_factor) == (3, 1)
        assert topic.topic_id == ZERO_UUID
        assert "retention.ms" in {each.name for each in await topic_configs(client, "old")}
        assert await delete_topics(client, ["old"]) == {"old": None}


async def test_refusals_are_errors(broker: Broker) -> None:
    async with client_of(broker) as client:
        with pytest.raises(BrokerError, match=r"cannot create topic '/': .*INVALID_TOPIC_EXC"):
            await create_topic(client, "/")
        with pytest.raises(BrokerError) as refused:
            await extend_topic(client, "none", 3)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(BrokerError):
            await topic_configs(client, "none")
        errors = await delete_topics(client, ["none"])
        assert str(errors["none"]).startswith("cannot delete topic 'none': ")
        assert await delete_topics(client, []) == {}


async def test_unknown_topic_has_similar_names(broker: Broker) -> None:
    async with client_of(broker) as client:
        await create_topic(client, "orders")
        with pytest.raises(UnknownNameError, match="no topic 'ordres'; similar names are orders"):
            await find_topic(client, "ordres")
        await delete_topics(client, ["orders"])


TOPIC = MetadataResponse.MetadataResponseTopic


class Answers:
    """A client whose broker gives these answers about a topic."""

    def __init__(self, *topics: MetadataResponse.MetadataResponseTopic) -> None:
        self.topics = list(topics)
        self.requests: list[Any] = []

    async def ask_any(self, request: Any, versions: object) -> MetadataResponse:  # noqa: ANN401
        del versions
        self.requests.append(request)
        return MetadataResponse(topics=[self.topics.pop(0)])


async def test_a_topic_that_is_being_created_is_asked_for_again() -> None:
    partitions = [MetadataResponse.MetadataResponsePartition()] * 3
    answers = Answers(
        TOPIC(error_code=ErrorCode.LEADER_NOT_AVAILABLE), TOPIC(partitions=partitions)
    )
    assert await created_partition_count(cast("KafkaClient", answers), "orders") == 3
    assert [each.topics[0].name for each in answers.requests] == ["orders"] * 2
    assert all(each.allow_auto_topic_creation for each in answers.requests)


async def test_another_error_is_final() -> None:
    answers = Answers(TOPIC(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(BrokerError, match="topic orders: "):
        await created_partition_count(cast("KafkaClient", answers), "orders")
