"""Discovery requests are answered by their content, as often as clients send them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.reading.messages import parse_response, request_header
from kafkalite.lab.replay.standin.discovery import DiscoveryAnswers
from kafkalite.lab.replay.standin.recorded_answers import NoRecordedAnswerError
from kafkalite.protocol._generated.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.frames import request_content
from tests.unit.lab.replay.recording import Recording

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange
    from kafkalite.protocol.message import Message

VERSION = 12


def metadata_request(*topics: str) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    )


def metadata_response(cluster_id: str) -> MetadataResponse:
    return MetadataResponse(cluster_id=cluster_id)


def ask(
    answers: DiscoveryAnswers,
    request: Message,
    *,
    client_id: str = "client",
    version: int = VERSION,
) -> str | None:
    """Return the cluster id of the response, None for no response."""
    found = find(answers, request, version, client_id=client_id)
    if found.response is None:
        return None
    response: MetadataResponse = parse_response(found)
    return response.cluster_id


def find(
    answers: DiscoveryAnswers, request: Message, version: int, *, client_id: str = "client"
) -> Exchange:
    header = request_header(
        request_content(request, version, correlation_id=1, client_id=client_id.encode())
    )
    return answers.next(header, request)


def test_equal_requests_get_the_recorded_responses_and_then_the_last_again() -> None:
    recording = Recording()
    recording.add(
        metadata_request("a"), metadata_response("a, first"), VERSION, connection_number=0
    )
    recording.add(metadata_request("b"), metadata_response("b"), VERSION, connection_number=0)
    recording.add(metadata_request("a"), metadata_response("a, then"), VERSION, connection_number=1)
    answers = DiscoveryAnswers(recording.exchanges)

    assert ask(answers, metadata_request("b")) == "b"
    assert answers.unused == {"Metadata": 2}
    assert [ask(answers, metadata_request("a")) for _ in range(3)] == [
        "a, first",
        "a, then",
        "a, then",
    ]
    assert answers.unused == {}


def test_responses_of_the_same_client_are_preferred() -> None:
    recording = Recording()
    for name in ("one", "two"):
        recording.add(
            metadata_request("a"), metadata_response(f"for {name}"), VERSION, client_id=name
        )
    answers = DiscoveryAnswers(recording.exchanges)

    assert ask(answers, metadata_request("a"), client_id="two") == "for two"
    assert ask(answers, metadata_request("a"), client_id="three") == "for one"
    assert ask(answers, metadata_request("b"), client_id="two") == "for two"


def test_request_without_response_is_used_only_if_there_is_no_other() -> None:
    """A client that exits after its request leaves a request without a response."""
    recording = Recording()
    recording.add(metadata_request("a"), metadata_response("a"), VERSION)
    recording.add(metadata_request("a"), None, VERSION)
    recording.add(metadata_request("b"), None, VERSION)
    answers = DiscoveryAnswers(recording.exchanges)

    assert [ask(answers, metadata_request("a")) for _ in range(2)] == ["a", "a"]
    assert ask(answers, metadata_request("b")) is None


def test_request_of_another_version_has_no_answer() -> None:
    recording = Recording()
    recording.add(metadata_request("a"), metadata_response("a"), VERSION)
    answers = DiscoveryAnswers(recording.exchanges)

    with pytest.raises(
        NoRecordedAnswerError, match="no request of this API and version was recorded"
    ):
        ask(answers, metadata_request("a"), version=VERSION - 1)


def test_versions_are_answered_in_every_version() -> None:
    recording = Recording()
    recorded = recording.add(ApiVersionsRequest(), ApiVersionsResponse(), 3)
    recording.add(metadata_request("a"), metadata_response("a"), VERSION)
    answers = DiscoveryAnswers(recording.exchanges)

    assert [find(answers, ApiVersionsRequest(), version) for version in (0, 4)] == [recorded] * 2


def test_malformed_request_is_skipped() -> None:
    recording = Recording()
    complete = recording.add(metadata_request("a"), metadata_response("a"), VERSION)
    answers = DiscoveryAnswers([replace(complete, request=complete.request[:-1])])

    with pytest.raises(NoRecordedAnswerError):
        ask(answers, metadata_request("a"))
