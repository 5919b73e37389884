"""tshark's dissection of the Kafka frames of a capture."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from tests.oracle.requirements import program

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

NULL: Final = "[ Null ]"
_RECORDS: Final = "Message Set"
_COMPLAINTS: Final = ("_ws.expert", "_ws.malformed", "_ws.unknown")


@dataclass(slots=True)
class DissectedFrame:
    """One frame of tshark; `fields` by tshark's names, in order, without records."""

    is_request: bool
    fields: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    complaints: list[str] = field(default_factory=list)

    def first_value(self, name: str) -> str | None:
        """Return a field's first value."""
        values = self.fields.get(name)
        return values[0] if values else None


Lane = tuple[int, int]
"""Source port and destination port of one direction."""


def dissect(capture: Path, ports: Iterable[int]) -> dict[Lane, list[DissectedFrame]]:
    """Return tshark's frames of a capture whose brokers have these ports."""
    command = [program("tshark"), "-r", str(capture), "-T", "pdml"]
    for port in sorted(ports):
        command += ["-d", f"tcp.port=={port},kafka"]
    lanes: dict[Lane, list[DissectedFrame]] = defaultdict(list)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=1 << 20
    ) as tshark:
        assert tshark.stdout is not None
        for _, packet in ET.iterparse(tshark.stdout):  # noqa: S314 - tshark's output is trusted
            if packet.tag != "packet":
                continue
            for lane, frame in _frames(packet):
                lanes[lane].append(frame)
            packet.clear()
    assert tshark.returncode == 0
    return lanes


def _frames(packet: ET.Element) -> Iterator[tuple[Lane, DissectedFrame]]:
    lane = (0, 0)
    for proto in packet.iter("proto"):
        if proto.get("name") == "tcp":
            ports = {
                field_element.get("name"): field_element.get("show", "0")
                for field_element in proto.iter("field")
            }
            lane = (int(ports["tcp.srcport"]), int(ports["tcp.dstport"]))
        elif proto.get("name") == "kafka":
            frame = DissectedFrame(is_request=False)
            _collect(proto, frame)
            frame.is_request = "kafka.request_key" in frame.fields
            yield lane, frame


def _collect(element: ET.Element, frame: DissectedFrame) -> None:
    for child in element:
        name = child.get("name") or ""
        if name.startswith(_COMPLAINTS):
            frame.complaints.append(child.get("showname") or child.get("show") or name)
        elif (child.get("show") or "").startswith(_RECORDS):
            continue
        else:
            if name:
                frame.fields[name].append(child.get("show") or "")
            _collect(child, frame)
