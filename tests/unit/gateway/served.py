"""Served: a gateway for one API, with everything that it wrote."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from kafkalite.coordinator.event_history import EventHistory
from kafkalite.gateway.api import Api
from kafkalite.gateway.call import ConnectionContext
from kafkalite.gateway.gateway import Gateway
from kafkalite.metadata.image import MetadataImage
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.versions import Versions
from kafkalite.testing.clock import ManualClock
from tests.unit.frames import read_answer, split_frames

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.cluster.node import Node
    from kafkalite.gateway.call import Call
    from kafkalite.protocol.error_codes import ErrorCode
    from kafkalite.wire.session import ServeResult

HEARTBEAT = 12
BEAT = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")


def refuse(_: object, code: ErrorCode, message: str | None) -> HeartbeatResponse:
    del message
    return HeartbeatResponse(error_code=code)


class Served:
    """A gateway for one API, with everything that it wrote."""

    def __init__(self, handler: Callable[..., Any], **row: Any) -> None:  # noqa: ANN401
        self.requests: list[HeartbeatRequest] = []
        self.faults: list[Exception] = []
        self.handler = handler
        self.history = EventHistory()
        self.api = api = Api(
            key=row.pop("key", HEARTBEAT),
            versions=row.pop("versions", Versions(0, 4)),
            handler=self.handle,
            refusal=row.pop("refusal", refuse),
            **row,
        )
        self.gateway = Gateway({api.key: api}.get, lambda _, fault: self.faults.append(fault))
        image = MetadataImage()
        node = SimpleNamespace(
            history=self.history,
            clock=ManualClock(),
            image=image,
            cluster=SimpleNamespace(metadata=SimpleNamespace(image=image)),
        )
        self.context = ConnectionContext(
            node=cast("Node", node),
            listener="PLAINTEXT",
            client_host="/127.0.0.1",
        )
        self.out: list[bytes | memoryview] = []

    def handle(self, call: Call, request: HeartbeatRequest) -> object:
        self.requests.append(request)
        return self.handler(call, request)

    def send(self, frame: bytes) -> ServeResult:
        # The bytes around a frame in the receive buffer must not matter.
        buffer = bytearray(b"before" + frame + b"after")
        start = len(b"before") + 4
        return self.gateway.serve_in_worker(
            self.context, buffer, start, len(b"before") + len(frame), self.out
        )

    def answer(self, version: int) -> tuple[int, HeartbeatResponse]:
        (content,) = split_frames(b"".join(self.out))
        self.out.clear()
        return read_answer(HEARTBEAT, version, content)


def alive(_: Call, __: HeartbeatRequest) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=7)
