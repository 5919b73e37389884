"""Responder: requests are passed to it before they are decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.gateway.responder import ResponderAnswer
from kafkalite.ports import turns
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatResponse
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from tests.unit.frames import framed, header, request_frame
from tests.unit.gateway.served import BEAT, Served, alive
from tests.unit.server.client import METADATA_VERSION, Client

if TYPE_CHECKING:
    from kafkalite.gateway.call import ConnectionContext
    from kafkalite.wire.session import Pieces

UNKNOWN_API = framed(header(999, 7))


def encode(answer: bytes, out: Pieces) -> int:
    out.append(answer)
    return len(answer)


class FixedResponder:
    """Answers requests with fixed bytes, or leaves them to the broker."""

    def __init__(self, answer: bytes | None) -> None:
        self.answer = answer
        self.seen: list[bytes] = []
        self.is_closed = False

    def respond(
        self, context: ConnectionContext, buffer: bytearray, start: int, end: int
    ) -> ResponderAnswer | None:
        del context
        self.seen.append(bytes(buffer[start:end]))
        return None if self.answer is None else ResponderAnswer(None, self.answer, encode)

    def close(self) -> None:
        self.is_closed = True


def test_a_responder_answers_apis_that_are_not_served() -> None:
    served = Served(alive)
    responder = FixedResponder(b"recorded")
    served.gateway.install_responder(responder)
    assert served.send(UNKNOWN_API) == len(b"recorded")
    assert served.out == [b"recorded"]
    assert responder.seen == [UNKNOWN_API[4:]]

    served.gateway.remove_responder(responder)
    assert responder.is_closed
    with pytest.raises(ProtocolViolation, match="999 is not served"):
        served.send(UNKNOWN_API)


def test_the_broker_serves_requests_that_a_responder_leaves() -> None:
    served = Served(alive)
    responder = FixedResponder(None)
    served.gateway.install_responder(responder)
    served.send(request_frame(BEAT, 4))
    assert served.answer(4)[1].throttle_time_ms == 7
    assert len(responder.seen) == 1
    with pytest.raises(ProtocolViolation, match="999 is not served"):
        served.send(UNKNOWN_API)
    with pytest.raises(ProtocolViolation, match="too short"):
        served.send(framed(b"short"))


def test_every_request_needs_a_worker_while_there_is_a_responder() -> None:
    """This includes requests of APIs that were served before."""
    constant = HeartbeatResponse()
    served = Served(lambda *_: constant, is_repeated=True)
    frame = bytearray(request_frame(BEAT, 4))

    def serve() -> int:
        size = served.gateway.serve(served.context, frame, 4, len(frame), served.out)
        assert isinstance(size, int)
        return size

    assert serve() == serve()
    responder = FixedResponder(None)
    served.gateway.install_responder(responder)
    with pytest.raises(turns.NeedsWorkerError):
        serve()
    served.send(bytes(frame))
    assert len(served.requests) == 3
    served.gateway.remove_responder(responder)
    serve()
    serve()
    assert served.requests[-1] is served.requests[-2]
    assert len(responder.seen) == 1


def test_a_second_responder_is_rejected() -> None:
    served = Served(alive)
    first, second = FixedResponder(None), FixedResponder(None)
    served.gateway.install_responder(first)
    with pytest.raises(RuntimeError, match="already"):
        served.gateway.install_responder(second)
    served.gateway.remove_responder(second)
    assert not first.is_closed
    served.gateway.close()
    assert first.is_closed


async def test_a_responder_is_installed_and_removed_while_a_client_is_connected() -> None:
    responder = FixedResponder(None)
    broker = Broker(Settings(listen=("127.0.0.1:0",)))
    await broker.start()
    client = await Client.to(broker.bootstrap_servers)
    for number in range(9):
        if number == 3:
            broker.gateway.install_responder(responder)
        if number == 6:
            broker.gateway.remove_responder(responder)
        await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
    assert len(responder.seen) == 3
    await client.close()
    await broker.stop()


async def test_a_responder_is_closed_with_its_broker() -> None:
    responder = FixedResponder(None)
    broker = Broker(
        Settings(listen=("127.0.0.1:0",)),
        prepare=lambda made: made.gateway.install_responder(responder),
    )
    await broker.start()
    client = await Client.to(broker.bootstrap_servers)
    await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
    assert len(responder.seen) == 1
    assert not responder.is_closed
    await client.close()
    await broker.stop()
    assert responder.is_closed
