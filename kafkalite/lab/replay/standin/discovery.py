"""`DiscoveryAnswers`: recorded answers to the requests by which clients find nodes and versions.

The number, order and connections of these requests depend on the timing of a client's threads.
Therefore they are matched by content instead of position. A request gets the recorded answers
to the same request of the same client, in order; the last one is repeated. If there are none, it
gets the answers to the most similar requests. ApiVersions is answered in every version, because a
broker supports all of them, and tools that check whether a broker answers choose one of their own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from kafkalite.capture.reading.messages import api_name, parse_request
from kafkalite.lab.replay.standin.recorded_answers import NoRecordedAnswerError
from kafkalite.lab.replay.standin.request_matching import Similarity, request_key
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import keys_where
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping

    from kafkalite.capture.model import Exchange
    from kafkalite.capture.reading.messages import Header
    from kafkalite.protocol.message import Message

DISCOVERY_APIS = keys_where(lambda row: row.is_discovery)
"""APIs by which clients find nodes and versions."""


class DiscoveryAnswer:
    """One recorded answer, and whether it was used."""

    __slots__ = ("exchange", "is_used")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.is_used = False


class DiscoveryAnswers:
    """Recorded answers to discovery requests, by content of the request."""

    def __init__(self, exchanges: Iterable[Exchange]) -> None:
        """`exchanges` are recorded exchanges of `DISCOVERY_APIS`, in order of time."""
        self._answers: defaultdict[Hashable, list[DiscoveryAnswer]] = defaultdict(list)
        """Request key → answers in reverse order."""
        for exchange in exchanges:
            try:
                request = parse_request(exchange)
            except ProtocolViolation:
                continue
            answer = DiscoveryAnswer(exchange)
            for key in _request_keys(exchange, request):
                self._answers[key].append(answer)
        for key, answers in self._answers.items():
            # A request without a response is used only if no request with the same key has one.
            self._answers[key] = [answer for answer in answers if _has_response(answer)][
                ::-1
            ] or answers

    @property
    def unused(self) -> Mapping[str, int]:
        """The number of unused recorded answers of each API."""
        answers = {id(answer): answer for answers in self._answers.values() for answer in answers}
        return Counter(
            api_name(answer.exchange.api_key) for answer in answers.values() if not answer.is_used
        )

    def next(self, header: Header, request: Message) -> Exchange:
        """Return the next exchange of the most similar request; raises NoRecordedAnswerError."""
        for key in _request_keys(header, request):
            if key in self._answers:
                answers = self._answers[key]
                while answers[-1].is_used and len(answers) > 1:
                    answers.pop()
                answers[-1].is_used = True
                return answers[-1].exchange
        raise NoRecordedAnswerError("no request of this API and version was recorded")


def _has_response(answer: DiscoveryAnswer) -> bool:
    return answer.exchange.response is not None


def _request_keys(header: Header | Exchange, request: Message) -> Iterator[Hashable]:
    """Yield the keys of a request, from the most to the least specific."""
    api_version = header.api_key, header.api_version
    content = request_key(header.api_key, request, Similarity.SIMILAR, lambda _: None)
    yield header.client_id, api_version, content
    yield api_version, content
    yield header.client_id, api_version
    yield api_version
    if header.api_key == ApiKey.API_VERSIONS:
        yield header.api_key
