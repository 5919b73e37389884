"""The key of a share partition."""

from __future__ import annotations

from kafkalite.protocol.uuids import uuid_from_text
from kafkalite.shares.state import ShareKey


def test_a_coordinator_is_found_by_group_topic_and_partition() -> None:
    topic_id = uuid_from_text("8lXFQ7mQR9uf2tmgyJFsSA")
    assert ShareKey("my:group", topic_id, 3).text == "my:group:8lXFQ7mQR9uf2tmgyJFsSA:3"
