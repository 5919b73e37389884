"""`TopicIds`: maps recorded topic ids to those of the target, before a client uses them.

An assignment in a heartbeat response has ids without names. The client then sends a Metadata
request with these ids, whose recorded response has the names. Before the replay sends this request,
it asks the target for the ids of the topics with these names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.capture.reading.messages import parse_response
from kafkalite.lab.replay.rewriting.id_mapping import ValueKind
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange
    from kafkalite.lab.replay.player.target import Target
    from kafkalite.lab.replay.rewriting.id_mapping import IdMapping

_METADATA = ApiKey.METADATA
_NO_ID = bytes(16)
MAX_UNRESOLVED = 10_000


class TopicIds:
    """Recorded topic ids whose names are known, but not their ids on the target."""

    def __init__(self, target: Target, mapping: IdMapping) -> None:
        self._target = target
        self._mapping = mapping
        self._unresolved: dict[bytes, str] = {}

    def learn_from(self, exchange: Exchange) -> None:
        """Learn topic names from the recorded response to a request that is not sent yet."""
        if exchange.api_key != _METADATA or exchange.response is None:
            return
        try:
            response: Any = parse_response(exchange)
        except ProtocolViolation:
            return
        for row in response.topics:
            topic_id = row.topic_id
            if topic_id == _NO_ID or not row.name:
                continue
            self._mapping.topic_names[topic_id] = row.name
            if (
                not self._mapping.knows(ValueKind.TOPIC_ID, topic_id)
                and len(self._unresolved) < MAX_UNRESOLVED
            ):
                self._unresolved[topic_id] = row.name

    async def resolve(self, request: bytes) -> None:
        """Map the topic ids in a request; ask the target for ids that are not known yet."""
        if not self._unresolved:
            return
        mapped = [
            topic_id
            for topic_id in self._unresolved
            if self._mapping.knows(ValueKind.TOPIC_ID, topic_id)
        ]
        for topic_id in mapped:
            del self._unresolved[topic_id]
        requested = {
            topic_id: name for topic_id, name in self._unresolved.items() if topic_id in request
        }
        if not requested:
            return
        ids = await self._target.fetch_topic_ids(sorted(set(requested.values())))
        for recorded, name in requested.items():
            if name in ids:
                del self._unresolved[recorded]
                self._mapping.learn(ValueKind.TOPIC_ID, recorded, ids[name])
