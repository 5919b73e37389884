"""Partitions of a topic: their number, and the one that Java's producer selects for a key."""

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

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_WORD_BYTES: Final = 4


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


def partition_of_key(key: bytes, count: int) -> int:
    """Return the partition of a key among `count`, as Java's producer selects it."""
    return (murmur2(key) & 0x7FFFFFFF) % count


def murmur2(data: bytes) -> int:
    """Return the unsigned 32-bit MurmurHash2 with the seed of Java's producer."""
    value = _SEED ^ len(data)
    whole = len(data) - len(data) % _WORD_BYTES
    for start in range(0, whole, _WORD_BYTES):
        word = int.from_bytes(data[start : start + _WORD_BYTES], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15
