"""Writes large synthetic captures fast: numpy fills varying fields into message templates.

`python -m tests.perf.big_capture --megabytes N --out DIR` writes rotated files of 64 MB with
heartbeats, commits, produce, fetch and metadata requests. With --mixed, producers, transactions,
and classic and consumer groups each have the requests of a life of such clients. The connections
continue from file to file. IP checksums are valid; TCP checksums are zero, as with checksum
offloading.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from struct import pack
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kafkalite.capture.formats.comments import PacketNote, encode_packet_note
from tests.perf.big_messages import Field, heartbeats_and_commits
from tests.perf.mixed_messages import HOT_KEYS, mixed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from tests.perf.big_messages import Traffic

FILE_BYTES: Final = 64_000_000
CONNECTIONS: Final = 312
_PAYLOAD_START: Final = 28 + 40
_STEP_NS: Final = 3_000
_START_NS: Final = 1_750_000_000_000_000_000
_PORT: Final = 9092
_SYN, _SYN_ACK, _PUSH_ACK = 0x02, 0x12, 0x18


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
    parser.add_argument("--mixed", action="store_true", help="requests of all kinds of clients")
    parser.add_argument(
        "--hot", choices=HOT_KEYS, help="mixed requests, of which one key has 90 %% of its kind"
    )
    options = parser.parse_args()
    capture = write(
        options.out,
        options.megabytes * 1_000_000,
        connections=options.connections,
        file_bytes=options.file_megabytes * 1_000_000,
        notes=not options.no_notes,
        is_mixed=options.mixed,
        hot=options.hot,
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
    is_mixed: bool = False,
    hot: str | None = None,
) -> WrittenCapture:
    """Write a capture of about `size` bytes; with a key in `hot`, it is mixed."""
    directory.mkdir(parents=True, exist_ok=True)
    is_mixed |= hot is not None
    traffic = mixed(connections, hot) if is_mixed else heartbeats_and_commits(connections)
    generator = TrafficGenerator(traffic, connections, notes=notes)
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

    def __init__(self, traffic: Traffic, connections: int, *, notes: bool) -> None:
        self.frames = self.commits = 0
        self._traffic = traffic
        self._notes = notes
        self._connection_count = connections
        self._exchanges = 0
        self._now_ns = _START_NS + connections * 1_000_000
        self._seq = np.full((2, connections), 1001, np.int64)
        self._correlation_ids = np.zeros(connections, np.int64)
        self._numbers = np.zeros(connections, np.int64)
        self._frames = [(template.request, template.response) for template in traffic.templates]
        self._blocks = [
            (
                packet(0, 0, 0, _PUSH_ACK, request, at_ns=0),
                packet(0, 1, 0, _PUSH_ACK, response, at_ns=0),
            )
            for request, response in self._frames
        ]
        self._sizes = np.array([[len(block) for block in blocks] for blocks in self._blocks])
        self._mean_exchange_bytes = float(
            self._sizes[self._next_exchanges(_SAMPLE)[1]].sum(1).mean()
        )

    def file(self, size: int) -> bytes:
        """Return the next file."""
        first_packets = b"".join(self._first_packets())
        exchange_count = max(int(size / self._mean_exchange_bytes), 1)
        connection, template_index, number = self._next_exchanges(exchange_count)
        values = self._traffic.values(
            connection, number, self._exchanges + np.arange(exchange_count)
        )
        correlation_ids = (self._correlation_ids - self._numbers)[connection] + number + 1
        body = self._exchange(connection, template_index, {_CORRELATION: correlation_ids, **values})
        counts = np.bincount(connection, minlength=self._connection_count)
        self._correlation_ids += counts
        self._numbers += counts
        self._exchanges += exchange_count
        return _SECTION + _INTERFACE + first_packets + body.tobytes()

    def _next_exchanges(
        self, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return connections, templates, and numbers of the exchanges on their connections."""
        order = self._traffic.connections
        connection = order[(self._exchanges + np.arange(count)) % len(order)]
        number = np.empty(count, np.int64)
        sort = np.argsort(connection, kind="stable")
        firsts = np.searchsorted(connection[sort], np.arange(self._connection_count))
        number[sort] = np.arange(count) - firsts[connection[sort]]
        number += self._numbers[connection]
        return connection, self._traffic.choose(connection, number), number

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
        self,
        connection: NDArray[Any],
        template_index: NDArray[Any],
        values: Mapping[str, NDArray[Any]],
    ) -> NDArray[np.uint8]:
        """Write alternating requests and responses."""
        exchange_count = len(connection)
        sizes = self._sizes[template_index]
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
                    blocks, side, connection[rows], seq=seq[rows], at_ns=at_ns[rows, side]
                )  # fmt: skip
                _fill_fields(
                    blocks,
                    (_CORRELATION_IDS[side], *self._traffic.templates[index].fields),
                    side,
                    {name: numbers[rows] for name, numbers in values.items()},
                )
                position = starts[rows, side]
                out[position[:, None] + np.arange(len(template))] = blocks
        self._now_ns += 2 * exchange_count * _STEP_NS
        self.frames += 2 * exchange_count
        self.commits += int(
            np.array([template.is_commit for template in self._traffic.templates])[
                template_index
            ].sum()
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
) -> None:
    """Fill in the headers of packets."""
    _set_field(blocks, 12, at_ns >> 32, "<u4")
    _set_field(blocks, 16, at_ns & 0xFFFFFFFF, "<u4")
    host = connection + 1
    _set_field(blocks, 28 + (14 if side == 0 else 18), host, ">u2")
    _set_field(blocks, 28 + 24, seq, ">u4")
    # The template has the checksum of host 1.
    start = int(blocks[0, 38]) << 8 | int(blocks[0, 39])
    total = (0xFFFF - start) - 1 + host
    _set_field(blocks, 28 + 10, 0xFFFF - ((total & 0xFFFF) + (total >> 16)), ">u2")


def _fill_fields(
    blocks: NDArray[np.uint8],
    fields: Iterable[Field],
    side: int,
    values: Mapping[str, NDArray[np.int64]],
) -> None:
    """Fill in the varying fields of messages."""
    for field in fields:
        if field.side == side:
            _set_field(blocks, _PAYLOAD_START + field.position, values[field.value], field.dtype)


def _set_field(blocks: NDArray[np.uint8], position: int, numbers: NDArray[Any], dtype: str) -> None:
    size = np.dtype(dtype).itemsize
    if dtype.startswith("S"):
        digits = numbers[:, None] // 10 ** np.arange(size - 1, -1, -1) % 10 + ord("0")
    else:
        digits = numbers.astype(dtype)[:, None].view(np.uint8)
    blocks[:, position : position + size] = digits


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


_CORRELATION: Final = "correlation_id"
_CORRELATION_IDS: Final = (Field(0, 8, ">u4", _CORRELATION), Field(1, 4, ">u4", _CORRELATION))
_SAMPLE: Final = 100_000
"""Exchanges whose mean size decides how many a file has."""
_SECTION: Final = pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
_NODE: Final = b"node=1 listener=PLAINTEXT"
_INTERFACE: Final = pack(
    "<IIHHIHHB3xHH25s3xII", 1, 64, 101, 0, 0, 9, 1, 9, 1, len(_NODE), _NODE, 0, 64
)

if __name__ == "__main__":
    main()
