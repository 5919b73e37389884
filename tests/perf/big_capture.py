"""Writes large synthetic captures fast: numpy fills varying fields into message templates.

`python -m tests.perf.big_capture --megabytes N --out DIR` writes rotated files of 64 MB with a mix
of heartbeats, commits, produce, fetch and metadata requests. Its hundred or so connections continue
from file to file. IP checksums are valid; TCP checksums are zero, as with checksum offloading.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from struct import pack
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kafkalite.traffic.formats.comments import PacketNote, encode_packet_note
from tests.perf.big_messages import TEMPLATES, weights

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

FILE_BYTES: Final = 64_000_000
CONNECTIONS: Final = 312
_PAYLOAD_START: Final = 28 + 40
_STEP_NS: Final = 3_000
_START_NS: Final = 1_750_000_000_000_000_000
_PORT: Final = 9092
_SYN, _SYN_ACK, _PUSH_ACK = 0x02, 0x12, 0x18
_STRIDE: Final = 7919
"""A prime that distributes the message types; the order is the same in every run."""


@dataclass(frozen=True)
class WrittenCapture:
    """A written capture."""

    files: tuple[Path, ...]
    frames: int
    commits: int
    """How many of the requests are OffsetCommits."""
    size: int


def main() -> None:
    """Write a capture, and print its contents in numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--file-megabytes", type=int, default=FILE_BYTES // 1_000_000)
    parser.add_argument(
        "--no-notes", action="store_true", help="omit packet comments, as tcpdump does"
    )
    parser.add_argument(
        "--hot-group", action="store_true", help="one group has 90 %% of the requests of groups"
    )
    options = parser.parse_args()
    capture = write(
        options.out,
        options.megabytes * 1_000_000,
        connections=options.connections,
        file_bytes=options.file_megabytes * 1_000_000,
        notes=not options.no_notes,
        has_hot_group=options.hot_group,
    )
    sys.stdout.write(
        f"{capture.size / 1e6:.0f} MB, {capture.frames:,} frames, {capture.commits:,} commits, "
        f"{len(capture.files)} files\n"
    )


def write(
    directory: Path,
    size: int,
    *,
    connections: int = CONNECTIONS,
    file_bytes: int = FILE_BYTES,
    notes: bool = True,
    has_hot_group: bool = False,
) -> WrittenCapture:
    """Write a capture of about `size` bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    generator = TrafficGenerator(connections, notes=notes, has_hot_group=has_hot_group)
    files: list[Path] = []
    written = 0
    while written < size:
        path = directory / f"capture-{len(files):05}.pcapng"
        data = generator.file(min(file_bytes, size - written))
        path.write_bytes(data)
        files.append(path)
        written += len(data)
    return WrittenCapture(tuple(files), generator.frames, generator.commits, written)


class TrafficGenerator:
    """All connections and their positions."""

    def __init__(self, connections: int, *, notes: bool, has_hot_group: bool = False) -> None:
        self.frames = self.commits = 0
        self._notes = notes
        self._connection_count = connections
        self._exchanges = 0
        self._now_ns = _START_NS + connections * 1_000_000
        self._seq = np.full((2, connections), 1001, np.int64)
        self._correlation_ids = np.zeros(connections, np.int64)
        self._template_order = np.repeat(
            np.arange(len(TEMPLATES)), weights(has_hot_group=has_hot_group)
        )
        self._frames = [(template.request, template.response) for template in TEMPLATES]
        self._blocks = [
            (
                packet(0, 0, 0, _PUSH_ACK, request, at_ns=0),
                packet(0, 1, 0, _PUSH_ACK, response, at_ns=0),
            )
            for request, response in self._frames
        ]
        sizes = np.array([len(request) + len(response) for request, response in self._blocks])
        self._mean_exchange_bytes = float(sizes[self._template_order].mean())

    def file(self, size: int) -> bytes:
        """Return the next file."""
        first_packets = b"".join(self._first_packets())
        exchange_count = max(int(size / self._mean_exchange_bytes), 1)
        number = np.arange(self._exchanges, self._exchanges + exchange_count)
        connection = number % self._connection_count
        template_index = self._template_order[
            (number // self._connection_count + connection * _STRIDE) % len(self._template_order)
        ]
        round_number = np.arange(exchange_count) // self._connection_count
        body = self._exchange(
            connection, template_index, self._correlation_ids[connection] + round_number + 1
        )
        self._correlation_ids += np.bincount(connection, minlength=self._connection_count)
        self._exchanges += exchange_count
        return _SECTION + _INTERFACE + first_packets + body.tobytes()

    def _first_packets(self) -> Iterator[bytes]:
        """Yield the SYN packets, or for a later file the first packets of continued connections."""
        for connection in range(self._connection_count):
            opened_ns = _START_NS + connection * 1_000_000
            if not self._exchanges:
                yield packet(connection, 0, 1000, _SYN, b"", at_ns=opened_ns)
                yield packet(connection, 1, 1000, _SYN_ACK, b"", at_ns=opened_ns + 1000)
            elif self._notes:
                self._correlation_ids[connection] += 1
                note = encode_packet_note(
                    PacketNote(opened=opened_ns, client=f"{client(connection)}:40000")
                )
                for side in (0, 1):
                    frame = bytearray(self._frames[0][side])
                    position = 8 if side == 0 else 4
                    frame[position : position + 4] = int(
                        self._correlation_ids[connection]
                    ).to_bytes(4)
                    seq = int(self._seq[side, connection])
                    yield packet(
                        connection,
                        side,
                        seq,
                        _PUSH_ACK,
                        bytes(frame),
                        at_ns=self._now_ns,
                        comment=note,
                    )
                    self._seq[side, connection] += len(frame)
                    self._now_ns += _STEP_NS
                    self.frames += 1

    def _exchange(
        self, connection: NDArray[Any], template_index: NDArray[Any], correlation_ids: NDArray[Any]
    ) -> NDArray[np.uint8]:
        """Write alternating requests and responses."""
        exchange_count = len(connection)
        sizes = np.array([(len(request), len(response)) for request, response in self._blocks])[
            template_index
        ]
        ends = np.cumsum(sizes.ravel())
        starts = (ends - sizes.ravel()).reshape(-1, 2)
        out = np.zeros(int(ends[-1]), np.uint8)
        at_ns = self._now_ns + np.arange(2 * exchange_count).reshape(-1, 2) * _STEP_NS
        for side in (0, 1):
            frame_sizes = np.array([len(frame[side]) for frame in self._frames])[template_index]
            seq = self._sequence(connection, frame_sizes, side)
            for index in np.unique(template_index).tolist():
                rows = np.flatnonzero(template_index == index)
                template = np.frombuffer(self._blocks[index][side], np.uint8)
                blocks = np.repeat(template[None], len(rows), axis=0)
                _fill(
                    blocks, side, connection[rows], seq=seq[rows], at_ns=at_ns[rows, side],
                    correlation_ids=correlation_ids[rows],
                )  # fmt: skip
                position = starts[rows, side]
                out[position[:, None] + np.arange(len(template))] = blocks
        self._now_ns += 2 * exchange_count * _STEP_NS
        self.frames += 2 * exchange_count
        self.commits += int(
            np.array([template.is_commit for template in TEMPLATES])[template_index].sum()
        )
        return out

    def _sequence(self, connection: NDArray[Any], sizes: NDArray[Any], side: int) -> NDArray[Any]:
        """Return the sequence number of each frame, and advance the positions."""
        order = np.argsort(connection, kind="stable")
        total = np.cumsum(sizes[order]) - sizes[order]
        firsts = np.searchsorted(connection[order], np.arange(self._connection_count))
        base = np.append(total, 0)[np.minimum(firsts, len(total))]
        seq = np.empty(len(connection), np.int64)
        seq[order] = total - base[connection[order]] + self._seq[side, connection[order]]
        self._seq[side] += np.bincount(connection, sizes, self._connection_count).astype(np.int64)
        return seq & 0xFFFFFFFF


def _fill(
    blocks: NDArray[np.uint8],
    side: int,
    connection: NDArray[Any],
    *,
    seq: NDArray[Any],
    at_ns: NDArray[Any],
    correlation_ids: NDArray[Any],
) -> None:
    """Copy a template for each packet, and fill in the varying fields."""

    def set_field(position: int, numbers: NDArray[Any], dtype: str) -> None:
        typed = numbers.astype(dtype)
        blocks[:, position : position + typed.dtype.itemsize] = typed[:, None].view(np.uint8)

    set_field(12, at_ns >> 32, "<u4")
    set_field(16, at_ns & 0xFFFFFFFF, "<u4")
    host = connection + 1
    set_field(28 + (14 if side == 0 else 18), host, ">u2")
    set_field(28 + 24, seq, ">u4")
    set_field(_PAYLOAD_START + (8 if side == 0 else 4), correlation_ids, ">u4")
    # The template has the checksum of host 1.
    start = int(blocks[0, 38]) << 8 | int(blocks[0, 39])
    total = (0xFFFF - start) - 1 + host
    set_field(28 + 10, 0xFFFF - ((total & 0xFFFF) + (total >> 16)), ">u2")


def client(connection: int) -> str:
    """Return the address of a connection's client."""
    return f"10.1.{connection + 1 >> 8}.{connection + 1 & 255}"


def packet(
    connection: int, side: int, seq: int, flags: int, frame: bytes, *, at_ns: int, comment: str = ""
) -> bytes:
    """Return a packet as a pcapng block."""
    host = bytes((10, 1)) + (connection + 1).to_bytes(2)
    hosts = (host, bytes((10, 0, 0, 1))) if side == 0 else (bytes((10, 0, 0, 1)), host)
    ports = (40000, _PORT) if side == 0 else (_PORT, 40000)
    ip = pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(frame), 0, 0x4000, 64, 6, 0, *hosts)
    checksum_sum = sum(int.from_bytes(ip[position : position + 2]) for position in range(0, 20, 2))
    checksum_sum = (checksum_sum & 0xFFFF) + (checksum_sum >> 16)
    checksum = 0xFFFF - ((checksum_sum & 0xFFFF) + (checksum_sum >> 16))
    ip = ip[:10] + checksum.to_bytes(2) + ip[12:]
    tcp = pack(">HHIIBBHHH", *ports, seq, 0, 5 << 4, flags, 65535, 0, 0)
    data = ip + tcp + frame
    body = pack("<IIIII", 0, at_ns >> 32, at_ns & 0xFFFFFFFF, len(data), len(data))
    body += data + bytes(-len(data) % 4)
    if comment:
        text = comment.encode()
        body += pack("<HH", 1, len(text)) + text + bytes(-len(text) % 4) + bytes(4)
    return pack("<II", 6, len(body) + 12) + body + pack("<I", len(body) + 12)


_SECTION: Final = pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
_NODE: Final = b"node=1 listener=PLAINTEXT"
_INTERFACE: Final = pack(
    "<IIHHIHHB3xHH25s3xII", 1, 64, 101, 0, 0, 9, 1, 9, 1, len(_NODE), _NODE, 0, 64
)

if __name__ == "__main__":
    main()
