"""Messages as rows, and back."""

from __future__ import annotations

from kafkalite.capture.model import Direction
from kafkalite.lab.checker.message_rows import message_of, row_of
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol.api_keys import ApiKey


def test_a_row_is_read_back_as_the_same_message() -> None:
    request = FetchRequest(
        topics=[FetchRequest.FetchTopic(topic="orders", partitions=[FetchRequest.FetchPartition()])]
    )
    assert message_of(int(ApiKey.FETCH), Direction.REQUEST, row_of(request)) == request


def test_a_field_that_a_version_lacks_has_its_default() -> None:
    read = message_of(int(ApiKey.FETCH), Direction.REQUEST, {"session_epoch": None})
    assert read.session_epoch == FetchRequest().session_epoch
