"""Topic ids that a client had before it was told: by a heartbeat's assignment, without a name.

The recorded answer to the request that asks for their names tells them; the target is asked then
what ids it has for these, before that request goes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.capture.messages import parse_response
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.replay.mapping import Kind

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange
    from kafkalite.replay.mapping import Mapping
    from kafkalite.replay.target import Target

_METADATA = 3
_NO_ID = bytes(16)
MOST_UNRESOLVED = 10_000


class TopicIds:
    """The recorded ids whose names are known, and not what the target calls them."""

    def __init__(self, target: Target, meaning: Mapping) -> None:
        self._target = target
        self._meaning = meaning
        self._unresolved: dict[bytes, str] = {}

    def look_ahead(self, exchange: Exchange) -> None:
        """Take the names that the recorded answer to a request will tell."""
        if exchange.api_key != _METADATA or exchange.response is None:
            return
        try:
            told: Any = parse_response(exchange)
        except ProtocolViolation:
            return
        for row in told.topics:
            topic_id = row.topic_id
            if topic_id == _NO_ID or not row.name:
                continue
            self._meaning.topics[topic_id] = row.name
            if (
                not self._meaning.knows(Kind.TOPIC_ID, topic_id)
                and len(self._unresolved) < MOST_UNRESOLVED
            ):
                self._unresolved[topic_id] = row.name

    async def resolve(self, request: bytes) -> None:
        """Ask the target for the ids that a request names and that nobody told yet."""
        if not self._unresolved:
            return
        known = [each for each in self._unresolved if self._meaning.knows(Kind.TOPIC_ID, each)]
        for each in known:
            del self._unresolved[each]
        named = {each: name for each, name in self._unresolved.items() if each in request}
        if not named:
            return
        ids = await self._target.topic_ids(sorted(set(named.values())))
        for recorded, name in named.items():
            if name in ids:
                del self._unresolved[recorded]
                self._meaning.tell(Kind.TOPIC_ID, recorded, ids[name])
