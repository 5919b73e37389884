"""Timeline: the history of a group or a transactional id, as the geometry of an SVG picture.

The picture is rendered on the server, so it needs no library for charts, and works without
JavaScript. Events can be milliseconds or days apart. So the distance between two moments is the
logarithm of the time between them, and the axis names the times.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice, pairwise, zip_longest
from math import log2
from typing import TYPE_CHECKING, Final

from kafkalite.control.console.texts import ago_text, name_text, time_text
from kafkalite.coordinator.event_history import REFUSAL_KINDS
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.texts import truncate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.control.commands.explain import HistoryEntry
    from kafkalite.control.console.source import Commit, MemberAssignment, TransactionMoment

WIDTH: Final = 100
"""Positions and widths are percentages of the picture, which is as wide as the page."""
LANE_HEIGHT: Final = 34
_TOP: Final = 34
"""The height of the band with epochs."""
_MARGIN: Final = 1.2
_AXIS_HEIGHT: Final = 24
_MIN_TICK_DISTANCE: Final = 10
_MIN_LABEL_WIDTH: Final = 2.2
_STATE_LABEL_WIDTH: Final = 12
_MIN_WIDTH: Final = 0.3
_MAX_TOPIC: Final = 40
"""Characters of a topic in the name of a lane, so that a phone shows the partition, too."""
_DIGITS: Final = 2
_UNIT_MS: Final = 20
"""A distance in time that is about as wide as no distance."""
MAX_MEMBERS: Final = 30
MAX_PARTITIONS: Final = 30
MAX_COMMITS: Final = 300
MAX_ASSIGNMENTS: Final = 60
"""The maximum number of assignments of one member that are shown, the latest."""
_CHARACTERS_PER_PERCENT: Final = 1.2
_MIN_CHARACTERS: Final = 4

_BEGINS: Final = frozenset(("joined", "rejoined"))
_ENDS: Final = frozenset(("left", "expired", "expelled", "reset"))
_FENCED, _REMOVED = "fenced", "removed"


class Bar(NamedTuple):
    """A time in a lane, or in the band with epochs."""

    x: float
    width: float
    kind: str
    """`member`, `assignment`, `rebalance`, `epoch`, or `state` and the name of a state."""
    title: str
    label: str = ""


class Mark(NamedTuple):
    """A moment in a lane."""

    x: float
    kind: str
    """The kind of the entry, or `commit`."""
    title: str
    entry: int | None
    """The number of the entry of the history."""


class Lane(NamedTuple):
    """A member, a partition, or the group itself."""

    y: float
    label: str
    note: str
    bars: Sequence[Bar]
    marks: Sequence[Mark]


class Tick(NamedTuple):
    """A time on the axis."""

    x: float
    label: str


class Timeline(NamedTuple):
    """The picture; heights are in pixels, and widths in percent."""

    height: float
    epochs: Sequence[Bar]
    lanes: Sequence[Lane]
    ticks: Sequence[Tick]
    hidden_members: int
    hidden_partitions: int
    selected_x: float | None
    """The moment that the page shows; None for now."""
    summary: str
    """The picture in words."""


class Scale:
    """Positions of moments, whose distances are logarithms of times."""

    def __init__(self, moments: Sequence[int]) -> None:
        """Use moments in milliseconds since the Unix epoch; at least one."""
        self._moments = sorted(set(moments))
        positions = [0.0]
        for earlier, later in pairwise(self._moments):
            positions.append(positions[-1] + 1 + log2(1 + (later - earlier) / _UNIT_MS))
        factor = (WIDTH - 2 * _MARGIN) / positions[-1] if positions[-1] else 0
        self._positions = [_MARGIN + factor * each for each in positions]

    def x(self, at_ms: int) -> float:
        """Return the position of a moment; between two known ones by the logarithm, too."""
        index = bisect_right(self._moments, at_ms) - 1
        if index < 0:
            return float(_MARGIN)
        start, left = self._moments[index], self._positions[index]
        if index + 1 == len(self._moments):
            return round(left, _DIGITS)
        gap_ms = self._moments[index + 1] - start
        share = log2(1 + (at_ms - start) / _UNIT_MS) / log2(1 + gap_ms / _UNIT_MS)
        return round(left + share * (self._positions[index + 1] - left), _DIGITS)

    def ticks(self) -> Iterator[Tick]:
        """Yield times with enough distance for their labels."""
        last = -float(_MIN_TICK_DISTANCE)
        for moment, position in zip(self._moments, self._positions, strict=True):
            if position - last >= _MIN_TICK_DISTANCE and position <= WIDTH - _MIN_TICK_DISTANCE:
                last = position
                yield Tick(round(position, _DIGITS), time_text(moment))


class _Member:
    """A member, and when it was in the group."""

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.spans: list[tuple[int | None, int | None]] = []
        """Pairs of begin and end in milliseconds; None for one that is not known, or not yet."""

    @property
    def _is_in(self) -> bool:
        return bool(self.spans) and self.spans[-1][1] is None

    def join(self, at_ms: int | None) -> None:
        """Begin to be in the group."""
        if not self._is_in:
            self.spans.append((at_ms, None))

    def leave(self, at_ms: int) -> None:
        """Be no longer in the group."""
        if self._is_in:
            self.spans[-1] = (self.spans[-1][0], at_ms)
        elif not self.spans:
            self.spans.append((None, at_ms))

    def settle(self, *, is_present: bool) -> None:
        """Correct the end: entries may be missing in the history."""
        if is_present and not self._is_in:
            self.join(self.spans[-1][1] if self.spans else None)
        elif not is_present and self._is_in:
            begin = self.spans[-1][0]
            self.spans[-1] = (begin, begin)


def timeline_of(
    entries: Sequence[HistoryEntry],
    *,
    texts: Mapping[int, str],
    names: Mapping[str, str],
    present: Sequence[str],
    commits: Sequence[Commit],
    now_ms: int,
    assignments: Sequence[MemberAssignment] = (),
    selected_ms: int | None = None,
) -> Timeline | None:
    """Return the picture of a group; None without any entry and commit.

    `texts` has the text of each entry by number, `names` the name of each member by id, `present`
    the ids of the members now, and `commits` and `assignments` the latest ones.
    """
    commits = commits[-MAX_COMMITS:]
    # Commits do not stretch the scale: there are many more of them than of other events.
    moments = [*(each.at_ms for each in entries), *(each.at_ms for each in commits[:1])]
    if not moments:
        return None
    scale = Scale([*moments, max(now_ms, *moments)])
    marks = _marks_by_lane(entries, scale, texts)
    ids = dict.fromkeys(present)
    members = _members(entries, ids)
    total = len(members) + len(ids) - sum(each.member_id in ids for each in members)
    end_x = scale.x(max(now_ms, *moments))
    lanes: list[Lane] = []

    def add(label: str, note: str, bars: Sequence[Bar], found: Sequence[Mark]) -> None:
        lanes.append(Lane(_TOP + LANE_HEIGHT * len(lanes), label, note, bars, found))

    add("group", "", list(_rebalances(entries, scale, end_x)), marks.get("", ()))
    for each in _shown(members, ids):
        name = name_text(names.get(each.member_id, each.member_id))
        bars = [*_member_bars(each, assignments, scale, end_x, name)]
        add(name, "" if each.member_id in ids else "gone", bars, marks.get(each.member_id, ()))
    partitions = _commit_marks(commits, scale)
    for (topic, index), found in sorted(partitions.items())[:MAX_PARTITIONS]:
        add(f"{name_text(topic, _MAX_TOPIC)}-{index}", "commits", (), found)
    return Timeline(
        height=_TOP + LANE_HEIGHT * len(lanes) + _AXIS_HEIGHT,
        epochs=list(_epochs(entries, scale, end_x)),
        lanes=lanes,
        ticks=list(scale.ticks()),
        hidden_members=max(0, total - MAX_MEMBERS),
        hidden_partitions=max(0, len(partitions) - MAX_PARTITIONS),
        selected_x=None if selected_ms is None else scale.x(selected_ms),
        summary=_summary(entries, total, commits),
    )


def transaction_timeline(
    moments: Sequence[TransactionMoment],
    entries: Sequence[HistoryEntry],
    *,
    texts: Mapping[int, str],
    now_ms: int,
) -> Timeline | None:
    """Return the picture of a transactional id: its states, and what happened to its producers."""
    times = [*(each.at_ms for each in entries), *(each.at_ms for each in moments)]
    if not times:
        return None
    end_ms = max(now_ms, *times)
    scale = Scale([*times, end_ms])
    starts = [*(scale.x(each.at_ms) for each in moments), scale.x(end_ms)]
    bars = [
        _bar(
            start,
            end,
            f"state {each.state.lower()}",
            f"{each.state} from {time_text(each.at_ms)}, partitions: {each.partitions}",
            each.state if end - start > _STATE_LABEL_WIDTH else "",
        )
        for each, (start, end) in zip(moments, pairwise(starts), strict=True)
    ]
    marks = [
        Mark(
            scale.x(each.at_ms),
            each.kind,
            f"{time_text(each.at_ms)} {each.kind}: {texts[each.number]}",
            each.number,
        )
        for each in entries
    ]
    lanes = [Lane(_TOP, "state", "", bars, ()), Lane(_TOP + LANE_HEIGHT, "events", "", (), marks)]
    refusals = sum(each.times for each in entries if each.kind in REFUSAL_KINDS)
    return Timeline(
        height=_TOP + LANE_HEIGHT * len(lanes) + _AXIS_HEIGHT,
        epochs=list(_producer_epochs(moments, scale, scale.x(end_ms))),
        lanes=lanes,
        ticks=list(scale.ticks()),
        hidden_members=0,
        hidden_partitions=0,
        selected_x=None,
        summary=f"States: {len(moments)}. Refusals: {refusals}.",
    )


def _producer_epochs(
    moments: Sequence[TransactionMoment], scale: Scale, end_x: float
) -> Iterator[Bar]:
    firsts: list[TransactionMoment] = []
    for each in moments:
        if not firsts or each[2:4] != firsts[-1][2:4]:
            firsts.append(each)
    starts = [*(scale.x(each.at_ms) for each in firsts), end_x]
    for each, (start, end) in zip(firsts, pairwise(starts), strict=True):
        label = f"{each.producer_epoch}" if end - start >= _MIN_LABEL_WIDTH else ""
        title = f"producer {each.producer_id} at epoch {each.producer_epoch}"
        yield _bar(start, end, "epoch", f"{title} from {time_text(each.at_ms)}", label)


def epoch_of(entry: HistoryEntry) -> int | None:
    """Return the epoch or generation that begins with an entry."""
    fact = None
    if entry.kind == "generation":
        fact = entry.facts.get("generation")
    elif entry.kind == "rebalance":
        fact = entry.facts.get("group_epoch")
    return fact if isinstance(fact, int) else None


def _members(entries: Sequence[HistoryEntry], present: Mapping[str, None]) -> list[_Member]:
    """Return the members that joined or left, in the order of their first entries.

    They are followed by others that are present, as far as the picture has room for them.
    """
    members: dict[str, _Member] = {}

    def member(member_id: str) -> _Member:
        return members.setdefault(member_id, _Member(member_id))

    for entry in entries:
        member_id, replaced = entry.facts.get("member_id"), entry.facts.get("replaces")
        if not isinstance(member_id, str):
            continue
        if entry.kind in _BEGINS:
            if isinstance(replaced, str) and replaced != member_id:
                member(replaced).leave(entry.at_ms)
            member(member_id).join(entry.first_ms)
        elif entry.kind in _ENDS or (entry.kind == _FENCED and _REMOVED in entry.text):
            member(member_id).leave(entry.at_ms)
    for member_id in islice(present, MAX_MEMBERS):
        member(member_id)
    for each in members.values():
        each.settle(is_present=each.member_id in present)
    return list(members.values())


def _shown(members: Sequence[_Member], present: Mapping[str, None]) -> Sequence[_Member]:
    """Return the members that have a lane: those that are present, and the latest others."""
    here = [each for each in members if each.member_id in present][:MAX_MEMBERS]
    gone = [each for each in members if each.member_id not in present]
    room = MAX_MEMBERS - len(here)
    chosen = {each.member_id for each in (*here, *gone[max(0, len(gone) - room) :])}
    return [each for each in members if each.member_id in chosen]


def _presence(span: tuple[int | None, int | None], scale: Scale, end_x: float, name: str) -> Bar:
    begin, end = span
    x = 0.0 if begin is None else scale.x(begin)
    until = end_x if end is None else scale.x(end)
    times = [
        "before the first entry" if begin is None else f"from {time_text(begin)}",
        "until now" if end is None else f"to {time_text(end)}",
    ]
    return _bar(x, until, "member", f"{name}: {', '.join(times)}")


def _member_bars(
    member: _Member, assignments: Sequence[MemberAssignment], scale: Scale, end_x: float, name: str
) -> Iterator[Bar]:
    for span in member.spans:
        yield _presence(span, scale, end_x, name)
    yield from _assignments(assignments, member, scale, end_x)


def _assignments(
    assignments: Sequence[MemberAssignment], member: _Member, scale: Scale, end_x: float
) -> Iterator[Bar]:
    """Yield the times in which a member had the same partitions, until it left or got others."""
    changes: list[MemberAssignment] = []
    for each in assignments:
        is_same = changes and changes[-1].partitions == each.partitions
        if each.member_id == member.member_id and not is_same:
            changes.append(each)
    ends = [end for _, end in member.spans if end is not None]
    latest = changes[-MAX_ASSIGNMENTS:]
    for each, following in zip_longest(latest, latest[1:]):
        if not each.partitions:
            continue
        later = [end for end in ends if end >= each.at_ms]
        later += [] if following is None else [following.at_ms]
        yield _assignment(each, scale, scale.x(min(later)) if later else end_x)


def _assignment(assignment: MemberAssignment, scale: Scale, end_x: float) -> Bar:
    text = partitions_text(assignment.partitions)
    x = scale.x(assignment.at_ms)
    characters = int((end_x - x) * _CHARACTERS_PER_PERCENT)
    title = f"{text} from {time_text(assignment.at_ms)}, epoch {assignment.epoch}"
    label = truncate(text, characters) if characters >= _MIN_CHARACTERS else ""
    return _bar(x, end_x, "assignment", title, label)


def partitions_text(partitions: Mapping[str, Sequence[int]]) -> str:
    """Return partitions by topic in a short form: `orders 0-3 7, payments 1`."""
    return ", ".join(
        f"{name_text(topic)} {' '.join(_ranges(indexes))}" for topic, indexes in partitions.items()
    )


def _ranges(indexes: Sequence[int]) -> Iterator[str]:
    """Yield ascending numbers, consecutive ones together."""
    first = 0
    for position, (each, following) in enumerate(zip_longest(indexes, indexes[1:])):
        if following != each + 1:
            yield f"{each}" if first == position else f"{indexes[first]}-{each}"
            first = position + 1


def _epochs(entries: Sequence[HistoryEntry], scale: Scale, end_x: float) -> Iterator[Bar]:
    found = [(entry, epoch) for entry in entries if (epoch := epoch_of(entry)) is not None]
    starts = [*(scale.x(entry.at_ms) for entry, _ in found), end_x]
    for (entry, epoch), (start, end) in zip(found, pairwise(starts), strict=True):
        word = "generation" if entry.kind == "generation" else "epoch"
        label = f"{epoch}" if end - start >= _MIN_LABEL_WIDTH else ""
        yield _bar(start, end, "epoch", f"{word} {epoch} from {time_text(entry.at_ms)}", label)


def _rebalances(entries: Sequence[HistoryEntry], scale: Scale, end_x: float) -> Iterator[Bar]:
    """Yield the times from the reason of a rebalance to the assignment."""
    begin: HistoryEntry | None = None
    for entry in entries:
        if entry.kind == "rebalance" and begin is None:
            begin = entry
        elif begin is not None and (
            entry.kind == "assigned" or (entry.kind == "generation" and not entry.facts["members"])
        ):
            yield _rebalance(begin, scale, scale.x(entry.at_ms), entry.at_ms - begin.at_ms)
            begin = None
    if begin is not None:
        yield _rebalance(begin, scale, end_x, None)


def _rebalance(begin: HistoryEntry, scale: Scale, end_x: float, lasted_ms: int | None) -> Bar:
    x = scale.x(begin.at_ms)
    how_long = "not ended" if lasted_ms is None else ago_text(lasted_ms)
    return _bar(x, end_x, "rebalance", f"rebalance, {how_long}")


def _bar(x: float, end_x: float, kind: str, title: str, label: str = "") -> Bar:
    return Bar(x, max(_MIN_WIDTH, round(end_x - x, _DIGITS)), kind, title, label)


def _marks_by_lane(
    entries: Sequence[HistoryEntry], scale: Scale, texts: Mapping[int, str]
) -> Mapping[str, list[Mark]]:
    """Return the marks of each member by its id, and of the group by an empty text."""
    marks: dict[str, list[Mark]] = {}
    for entry in entries:
        member_id = entry.facts.get("member_id")
        lane = member_id if isinstance(member_id, str) else ""
        title = f"{time_text(entry.at_ms)} {entry.kind}: {texts[entry.number]}"
        marks.setdefault(lane, []).append(
            Mark(scale.x(entry.at_ms), entry.kind, title, entry.number)
        )
    known = {each.member_id for each in _members(entries, {})}
    for lane in [each for each in marks if each and each not in known]:
        # A client can be refused with a member id that is none.
        marks.setdefault("", []).extend(marks.pop(lane))
    return marks


def _commit_marks(commits: Sequence[Commit], scale: Scale) -> Mapping[tuple[str, int], list[Mark]]:
    found: dict[tuple[str, int], list[Mark]] = {}
    for each in commits:
        title = f"{time_text(each.at_ms)} {each.topic}-{each.partition} committed {each.offset}"
        mark = Mark(scale.x(each.at_ms), "commit", title, None)
        found.setdefault((each.topic, each.partition), []).append(mark)
    return found


def _summary(entries: Sequence[HistoryEntry], members: int, commits: Sequence[Commit]) -> str:
    refusals = sum(each.times for each in entries if each.kind in REFUSAL_KINDS)
    epochs = [epoch for each in entries if (epoch := epoch_of(each)) is not None]
    span = f", from {epochs[0]} to {epochs[-1]}" if epochs else ""
    return (
        f"Members: {members}. Generations or epochs: {len(epochs)}{span}. "
        f"Refusals: {refusals}. Commits: {len(commits)}."
    )
