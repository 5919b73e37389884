"""Commands that show the requests and batches of proofs, ready to paste into a shell."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from kafkalite.lab.checker.history import LogProof, Proof

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PORTS: Final = re.compile(r":(\d+) > .*:(\d+)$")


def commands_of(proofs: Iterable[Proof | LogProof]) -> Iterator[str]:
    """Yield one command of kafkalite and one of tshark for each capture, and one for each segment.

    tshark's filter names the connection and the correlation id, so it finds the answers, too.
    """
    by_capture: dict[str, list[Proof]] = defaultdict(list)
    segments: dict[str, None] = {}
    for each in proofs:
        if isinstance(each, LogProof):
            segments.setdefault(each.file)
        elif each.file and each.offset >= 0:
            by_capture[each.file].append(each)
    for file, own in by_capture.items():
        offsets = " ".join(f"--offset {each}" for each in dict.fromkeys(p.offset for p in own))
        yield f"kafkalite show {shlex.quote(file)} {offsets}"
        if line := _tshark(file, own):
            yield line
    for file in segments:
        yield f"kafka-dump-log.sh --print-data-log --files {shlex.quote(file)}"


def _tshark(file: str, proofs: Iterable[Proof]) -> str:
    ports: dict[str, None] = {}
    filters: dict[str, None] = {}
    for each in proofs:
        match = _PORTS.search(each.connection)
        if match is None or each.correlation_id is None:
            continue
        client, broker = match.groups()
        ports.setdefault(broker)
        filters.setdefault(
            f"(tcp.port=={client} && tcp.port=={broker} && "
            f"kafka.correlation_id=={each.correlation_id})"
        )
    if not filters:
        return ""
    decoded = " ".join(f"-d tcp.port=={port},kafka" for port in ports)
    return f"tshark -r {shlex.quote(file)} {decoded} -Y {shlex.quote(' || '.join(filters))}"
