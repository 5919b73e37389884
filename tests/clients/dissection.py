"""Kafka as Wireshark reads it: tshark's dissection of a capture, frame by frame."""

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
class Dissected:
    """One frame as tshark has it; `fields` by tshark's names, in order, without records."""

    is_request: bool
    fields: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    complaints: list[str] = field(default_factory=list)

    def first(self, name: str) -> str | None:
        """Return a field's first value."""
        values = self.fields.get(name)
        return values[0] if values else None


Lane = tuple[int, int]
"""Source port and target port of one direction."""


def dissect(capture: Path, ports: Iterable[int]) -> dict[Lane, list[Dissected]]:
    """Return what tshark makes of a capture whose brokers have these ports."""
    command = [program("tshark"), "-r", str(capture), "-T", "pdml"]
    for port in sorted(ports):
        command += ["-d", f"tcp.port=={port},kafka"]
    lanes: dict[Lane, list[Dissected]] = defaultdict(list)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=1 << 20
    ) as tshark:
        assert tshark.stdout is not None
        for _, packet in ET.iterparse(tshark.stdout):  # noqa: S314 - tshark is no attacker
            if packet.tag != "packet":
                continue
            for lane, dissected in _frames(packet):
                lanes[lane].append(dissected)
            packet.clear()
    assert tshark.returncode == 0
    return lanes


def _frames(packet: ET.Element) -> Iterator[tuple[Lane, Dissected]]:
    lane = (0, 0)
    for proto in packet.iter("proto"):
        if proto.get("name") == "tcp":
            ports = {each.get("name"): each.get("show", "0") for each in proto.iter("field")}
            lane = (int(ports["tcp.srcport"]), int(ports["tcp.dstport"]))
        elif proto.get("name") == "kafka":
            made = Dissected(is_request=False)
            _collect(proto, made)
            made.is_request = "kafka.request_key" in made.fields
            yield lane, made


def _collect(element: ET.Element, into: Dissected) -> None:
    for each in element:
        name = each.get("name") or ""
        if name.startswith(_COMPLAINTS):
            into.complaints.append(each.get("showname") or each.get("show") or name)
        elif (each.get("show") or "").startswith(_RECORDS):
            continue
        else:
            if name:
                into.fields[name].append(each.get("show") or "")
            _collect(each, into)
