"""The pictures of the documentation: boxes and arrows, as SVG.

`python -m tests.docs.pictures` writes them to docs/images/.
"""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from tests.architecture.source import ROOT

DIRECTORY = ROOT / "docs" / "images"

_WIDTH, _HEIGHT = 196, 74
_GAP_X, _GAP_Y = 34, 34
_MARGIN = 14
_STYLE = """\
<style>
  .page { fill: #fafbfc; }
  .box { fill: #e8eef4; stroke: #546e7a; stroke-width: 1.5; }
  text { font-family: system-ui, sans-serif; text-anchor: middle; fill: #263238; }
  .title { font-size: 15px; font-weight: 600; }
  .code { font-size: 12px; font-family: ui-monospace, monospace; fill: #455a64; }
  .note { font-size: 12.5px; }
  .arrow { stroke: #546e7a; stroke-width: 2; fill: none; marker-end: url(#head); }
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="6" refY="4" orient="auto">
<path d="M0 0L8 4L0 8z" fill="#546e7a"/></marker></defs>"""


class Box(NamedTuple):
    """One box: its column and row (halves are allowed), a title, a line of code, and a note."""

    column: int
    row: float
    title: str
    code: str
    note: str

    @property
    def left(self) -> int:
        """The x coordinate of the left edge, in pixels."""
        return _MARGIN + self.column * (_WIDTH + _GAP_X)

    @property
    def top(self) -> int:
        """The y coordinate of the top edge, in pixels."""
        return _MARGIN + int(self.row * (_HEIGHT + _GAP_Y))


class Picture(NamedTuple):
    """Boxes, and arrows between the boxes at these positions in the list."""

    title: str
    boxes: tuple[Box, ...]
    arrows: tuple[tuple[int, int], ...]


def _chain(count: int) -> tuple[tuple[int, int], ...]:
    """Return arrows from each box to the next one."""
    return tuple((index, index + 1) for index in range(count - 1))


PICTURES = {
    "start": Picture(
        "Clients connect to kafkalite as to Kafka, and tests control it",
        (
            Box(0, 0, "Your program", "Java, Go, Python, …", "with any Kafka client"),
            Box(0, 1, "Your test", "pytest, JUnit, HTTP", "controls and asserts"),
            Box(1, 0.5, "kafkalite", "localhost:9092", "answers as Kafka does"),
            Box(2, 0, "Logs", "Kafka's file formats", "survive restarts"),
            Box(2, 1, "Captures", "*.pcapng", "replay, compare, audit"),
        ),
        ((0, 2), (1, 2), (2, 3), (2, 4)),
    ),
    "request-path": Picture(
        "The path of a request through kafkalite; the response returns the same way",
        (
            Box(0, 0, "1. Connection", "server/", "bytes of one socket"),
            Box(1, 0, "2. Session", "wire/", "frames, in order"),
            Box(2, 0, "3. Gateway and route", "gateway/", "decode, find the handler"),
            Box(3, 0, "4. Steps", "gateway/", "faults, if installed"),
            Box(3, 1, "5. Handler", "apis/", "checks topics and groups"),
            Box(2, 1, "6. State machine", "groups/, metadata/", "decides records, response"),
            Box(1, 1, "7. Coordinator", "coordinator/", "appends, then replays"),
            Box(0, 1, "8. Log", "storage/", "Kafka's files on disk"),
        ),
        _chain(8),
    ),
    "listeners": Picture(
        "Two listeners of one broker: each client receives an address that it can reach",
        (
            Box(0, 0, "Client in a container", "kafkalite:29092", "bootstrap address"),
            Box(0, 1, "Client on the host", "localhost:9092", "bootstrap address"),
            Box(1, 0, "Listener INSIDE", "0.0.0.0:29092", "advertises kafkalite:29092"),
            Box(1, 1, "Listener OUTSIDE", "0.0.0.0:9092", "advertises localhost:9092"),
            Box(2, 0.5, "Broker", "node 1", "one log, one set of groups"),
        ),
        ((0, 2), (1, 3), (2, 4), (3, 4)),
    ),
    "captures": Picture(
        "Captures: three programs record them, five commands read them",
        (
            Box(0, 1, "kafkalite", "serve --capture", "records itself"),
            Box(0, 2, "Proxy", "kafkalite capture", "records any cluster"),
            Box(0, 3, "tcpdump, Wireshark", "trace.pcap", "record a network"),
            Box(1, 2, "Capture files", "*.pcapng, *.pcap", "requests and responses"),
            Box(2, 0, "Read", "kafkalite show", "one line per request"),
            Box(2, 1, "Replay", "kafkalite replay", "sends the requests again"),
            Box(2, 2, "Stand in", "serve --replay", "gives the responses"),
            Box(2, 3, "Compare", "kafkalite diff", "two captures"),
            Box(2, 4, "Audit", "kafkalite audit", "tables and a report"),
        ),
        ((0, 3), (1, 3), (2, 3), (3, 4), (3, 5), (3, 6), (3, 7), (3, 8)),
    ),
}
"""All pictures, by the name of the file without its ending."""


def _box_lines(box: Box) -> list[str]:
    x, y = box.left, box.top
    middle = x + _WIDTH // 2
    return [
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" class="box"/>',
        f'<text x="{middle}" y="{y + 24}" class="title">{escape(box.title)}</text>',
        f'<text x="{middle}" y="{y + 43}" class="code">{escape(box.code)}</text>',
        f'<text x="{middle}" y="{y + 62}" class="note">{escape(box.note)}</text>',
    ]


def _arrow_line(source: Box, target: Box) -> str:
    """Return an arrow: between neighbouring columns, or down within a column."""
    if source.column == target.column:
        middle = source.left + _WIDTH // 2
        return f'<path d="M{middle} {source.top + _HEIGHT}V{target.top - 3}" class="arrow"/>'
    start_y, end_y = source.top + _HEIGHT // 2, target.top + _HEIGHT // 2
    if source.column < target.column:
        start_x, end_x = source.left + _WIDTH, target.left - 3
    else:
        start_x, end_x = source.left, target.left + _WIDTH + 3
    return f'<path d="M{start_x} {start_y}L{end_x} {end_y}" class="arrow"/>'


def render(picture: Picture) -> str:
    """Return a picture as SVG text; its colours suit light and dark pages."""
    width = max(box.left for box in picture.boxes) + _WIDTH + _MARGIN
    height = max(box.top for box in picture.boxes) + _HEIGHT + _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(picture.title)}</title>",
        _STYLE,
        f'<rect width="{width}" height="{height}" rx="8" class="page"/>',
    ]
    for box in picture.boxes:
        lines += _box_lines(box)
    for source, target in picture.arrows:
        lines.append(_arrow_line(picture.boxes[source], picture.boxes[target]))
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for name, each in PICTURES.items():
        (DIRECTORY / f"{name}.svg").write_text(render(each), encoding="utf-8")
