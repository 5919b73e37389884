"""What clients ask to find their way is told by what they ask, as often as they ask it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.messages import parse_response, request_header
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.replay.answers import MissError
from kafkalite.replay.signposts import Signposts
from tests.unit.frames import request_content
from tests.unit.replay.recorded import Recording

if TYPE_CHECKING:
    from kafkalite.protocol.message import Message

VERSION = 12


def about(*topics: str) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    )


def told(cluster_id: str) -> MetadataResponse:
    return MetadataResponse(cluster_id=cluster_id)


def ask(
    signposts: Signposts, request: Message, *, client_id: str = "client", version: int = VERSION
) -> str | None:
    """Return what one is told, None for silence."""
    header = request_header(
        request_content(request, version, correlation_id=1, client_id=client_id.encode())
    )
    found = signposts.next(header, request)
    if found.response is None:
        return None
    response: MetadataResponse = parse_response(found)
    return response.cluster_id


def test_a_question_gets_its_answers_in_their_order_and_the_last_for_ever() -> None:
    recording = Recording()
    recording.say(about("a"), told("a, first"), VERSION, on=0)
    recording.say(about("b"), told("b"), VERSION, on=0)
    recording.say(about("a"), told("a, then"), VERSION, on=1)
    signposts = Signposts(recording.exchanges)

    assert ask(signposts, about("b")) == "b"
    assert signposts.not_asked == {"Metadata": 2}
    assert [ask(signposts, about("a")) for _ in range(3)] == ["a, first", "a, then", "a, then"]
    assert signposts.not_asked == {}


def test_a_client_is_told_what_it_was_told_or_else_what_others_were() -> None:
    recording = Recording()
    for name in ("one", "two"):
        recording.say(about("a"), told(f"for {name}"), VERSION, client_id=name)
    signposts = Signposts(recording.exchanges)

    assert ask(signposts, about("a"), client_id="two") == "for two"
    assert ask(signposts, about("a"), client_id="three") == "for one"
    assert ask(signposts, about("b"), client_id="two") == "for two"


def test_who_went_away_before_the_answer_is_told_what_was_told_before() -> None:
    """A client that ends as it asks leaves a question that is not answered; the next may stay."""
    recording = Recording()
    recording.say(about("a"), told("a"), VERSION)
    recording.say(about("a"), None, VERSION)
    recording.say(about("b"), None, VERSION)
    signposts = Signposts(recording.exchanges)

    assert [ask(signposts, about("a")) for _ in range(2)] == ["a", "a"]
    assert ask(signposts, about("b")) is None


def test_another_version_was_told_nothing() -> None:
    recording = Recording()
    recording.say(about("a"), told("a"), VERSION)
    signposts = Signposts(recording.exchanges)

    with pytest.raises(MissError, match="nobody asked for it in this version"):
        ask(signposts, about("a"), version=VERSION - 1)


def test_what_cannot_be_read_was_not_asked() -> None:
    recording = Recording()
    whole = recording.say(about("a"), told("a"), VERSION)
    signposts = Signposts([replace(whole, request=whole.request[:-1])])

    with pytest.raises(MissError):
        ask(signposts, about("a"))
