"""`ConnectionWriter`: writes the frames of one connection as packets, by its frame policy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkalite.capture.formats.comments import PacketNote, encode_packet_note
from kafkalite.capture.reading.messages import CORRELATION_BYTES
from kafkalite.capture.recording.frame_splitting import (
    LENGTH_BYTES,
    TREATMENT_PREFIX_BYTES,
    FrameSplitter,
)

if TYPE_CHECKING:
    from kafkalite.capture.formats.pcapng import Buffer
    from kafkalite.capture.formats.tcp_packets import PacketStream, TcpConnection
    from kafkalite.capture.recording.file_rotation import FileRotation
    from kafkalite.capture.recording.frame_policy import FramePolicy
    from kafkalite.capture.recording.frame_splitting import PacketPayload


class ConnectionWriter:
    """Writes one connection, from its handshake to its close."""

    __slots__ = ("_policy", "_requests", "_responses", "_rotation", "_tcp", "client")

    def __init__(
        self, tcp: TcpConnection, client: str, rotation: FileRotation, policy: FramePolicy
    ) -> None:
        self._tcp = tcp
        self.client = client
        """The client's address as `host:port`."""
        self._policy = policy
        requests = FrameSplitter(
            policy.skip_unchanged_requests,
            policy.request_treatment,
            TREATMENT_PREFIX_BYTES,
            keeps_unframed=policy.keeps_unframed,
        )
        responses = FrameSplitter(
            policy.skip_unchanged_responses,
            policy.response_treatment,
            LENGTH_BYTES + CORRELATION_BYTES,
            keeps_unframed=policy.keeps_unframed,
        )
        self._rotation = rotation
        self._requests = _Side(requests, tcp.to_broker, rotation.file_number)
        self._responses = _Side(responses, tcp.to_client, rotation.file_number)
        for block in tcp.open():
            rotation.add(block)

    def write_received(self, at_ns: int, data: Buffer) -> None:
        """Write bytes from the client."""
        self._write(at_ns, self._requests, self._responses, data)

    def write_sent(self, at_ns: int, data: Buffer) -> None:
        """Write bytes to the client."""
        self._write(at_ns, self._responses, self._requests, data)

    def finish(self, at_ns: int, *, is_closed: bool) -> None:
        """Write the remaining bytes of both directions, and the close if `is_closed`."""
        self._write(at_ns, self._requests, self._responses, None)
        self._write(at_ns, self._responses, self._requests, None)
        if is_closed:
            note = None
            if self._requests.file_number != self._rotation.file_number:
                note = encode_packet_note(self._add_connection_fields(PacketNote(), 0))
            for block in self._tcp.close(at_ns, note):
                self._rotation.add(block)

    def _write(self, at_ns: int, side: _Side, opposite: _Side, data: Buffer | None) -> None:
        """Write bytes of one direction; None ends it."""
        payloads: list[PacketPayload] = []
        remaining_frame_bytes = side.splitter.remaining_frame_bytes
        if data is None:
            side.splitter.finish(payloads)
        else:
            side.splitter.feed(data, payloads)
        if not payloads:
            return
        rotation, block = self._rotation, side.stream.block
        interface, acknowledged = self._tcp.interface, opposite.stream.sequence
        if side.file_number != rotation.file_number:
            side.file_number = rotation.file_number
            # A reader of this file alone needs these facts about the connection.
            first_payload, note = payloads[0]
            payloads[0] = (
                first_payload,
                self._add_connection_fields(note or PacketNote(), remaining_frame_bytes),
            )
        for payload, note in payloads:
            comment = None if note is None else encode_packet_note(note)
            rotation.add(block(interface, at_ns, acknowledged, payload, comment=comment))

    def _add_connection_fields(self, note: PacketNote, remaining_frame_bytes: int) -> PacketNote:
        software, version = self._policy.software or (None, None)
        return replace(
            note,
            opened=self._tcp.opened_ns,
            inside=remaining_frame_bytes or None,
            client=self.client,
            software=software,
            software_version=version,
        )


class _Side:
    """One direction: its frame splitter, its packet stream, and the last file with its packets."""

    __slots__ = ("file_number", "splitter", "stream")

    def __init__(self, splitter: FrameSplitter, stream: PacketStream, file_number: int) -> None:
        self.splitter = splitter
        self.stream = stream
        self.file_number = file_number
