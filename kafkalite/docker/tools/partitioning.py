"""The number of partitions of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.client.retries import DEFAULT_BACKOFF, Retries
from kafkalite.docker.tools.arguments import ToolError, error_reason
from kafkalite.ports.clock import AdjustableClock
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from kafkalite.client.client import KafkaClient

_VERSIONS: Final = Versions(4, 12)
_TIMEOUT_MS: Final = 5_000


async def partition_count(client: KafkaClient, topic: str) -> int:
    """Return the number of partitions of a topic, which the broker may create; raises ToolError."""
    row = MetadataRequest.MetadataRequestTopic(name=topic)
    request = MetadataRequest(topics=[row], allow_auto_topic_creation=True)
    retries = Retries(AdjustableClock(), DEFAULT_BACKOFF, _TIMEOUT_MS)
    while True:
        found = (await client.ask_any(request, _VERSIONS)).topics[0]
        if not found.error_code:
            return len(found.partitions)
        if not ErrorCode(found.error_code).retriable or not await retries.wait():
            raise ToolError(f"topic {topic}: {error_reason(found)}")
