"""The number of partitions of a topic, which a broker may be creating."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.docker.tools.arguments import ToolError
from kafkalite.docker.tools.partitioning import partition_count
from kafkalite.protocol._generated.messages.metadata import MetadataResponse
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafkalite.client.client import KafkaClient

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
    assert await partition_count(cast("KafkaClient", answers), "orders") == 3
    assert [each.topics[0].name for each in answers.requests] == ["orders"] * 2
    assert all(each.allow_auto_topic_creation for each in answers.requests)


async def test_another_error_is_final() -> None:
    answers = Answers(TOPIC(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(ToolError, match="topic orders: "):
        await partition_count(cast("KafkaClient", answers), "orders")
