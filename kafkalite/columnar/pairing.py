"""Requests and their responses, for all connections of a chunk at once.

A broker answers the requests of a connection in their order. So the n-th response belongs to the
n-th request that gets one, and where the correlation ids agree all along, that is so. A
connection on which they do not is gone through frame by frame.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafkalite.columnar.arrays import NONE, Ints, ranges, where

if TYPE_CHECKING:
    from kafkalite.columnar.arrays import Mask


class Paired(NamedTuple):
    """Rows of requests and of their responses."""

    request: Ints
    response: Ints
    open: Ints
    """Requests that are still to be answered."""
    never: Ints
    """Requests that were passed over by the answer to a later one."""
    orphans: Ints
    """Responses to nothing."""


class Frames(NamedTuple):
    """What pairing must know of frames, each direction of a connection in order."""

    line: Ints
    direction: Ints
    correlation_id: Ints
    awaits: Mask
    packet: Ints
    """When each was complete."""


def paired(frames: Frames, lines: int) -> Paired:
    """Pair the frames of a chunk; `lines` is how many connections there are."""
    asked = where((frames.direction == 0) & frames.awaits)
    said = where(frames.direction == 1)
    asked_count = np.bincount(frames.line[asked], minlength=lines)
    said_count = np.bincount(frames.line[said], minlength=lines)
    asked_first = np.cumsum(asked_count) - asked_count
    said_first = np.cumsum(said_count) - said_count
    line = frames.line[said]
    rank = np.arange(len(said)) - said_first[line]
    has = rank < asked_count[line]
    match = asked[np.where(has, asked_first[line] + rank, 0)] if len(asked) else np.zeros_like(said)
    agrees = has.copy()
    if len(asked):
        agrees &= frames.correlation_id[match] == frames.correlation_id[said]
        agrees &= frames.packet[match] <= frames.packet[said]
    odd = np.zeros(lines, np.bool_)
    odd[line[~agrees]] = True
    even = ~odd[line] if odd.any() else np.ones(len(said), np.bool_)
    left = np.where(odd, 0, asked_count - np.minimum(said_count, asked_count))
    still = asked[ranges(asked_first + asked_count - left, left)] if len(asked) else NONE
    found = Paired(match[even], said[even], still, NONE, NONE)
    if not odd.any():
        return found
    parts = [found]
    for number in where(odd).tolist():
        requests = asked[asked_first[number] : asked_first[number] + asked_count[number]]
        responses = said[said_first[number] : said_first[number] + said_count[number]]
        parts.append(_one_line(frames, requests, responses))
    return Paired(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _one_line(frames: Frames, requests: Ints, responses: Ints) -> Paired:
    """Pair one connection: by shifting its responses where some at their start answer nothing."""
    asked, said = frames.correlation_id[requests], frames.correlation_id[responses]
    if len(asked):
        shift = np.flatnonzero(said == asked[0])
        if len(shift):
            skipped = int(shift[0])
            count = min(len(asked), len(said) - skipped)
            rest = responses[skipped:]
            if (
                len(rest) <= len(asked)
                and (asked[:count] == said[skipped:]).all()
                and (frames.packet[requests[:count]] <= frames.packet[rest]).all()
                and not np.isin(said[:skipped], asked).any()
            ):
                return Paired(requests[:count], rest, requests[count:], NONE, responses[:skipped])
    return _by_turns(frames, requests, responses)


def _by_turns(frames: Frames, requests: Ints, responses: Ints) -> Paired:
    """Pair one connection frame by frame, as they came."""
    rows = np.concatenate([requests, responses])
    turns = rows[np.argsort(frames.packet[rows] * 2 + frames.direction[rows], kind="stable")]
    waiting: deque[int] = deque()
    ids: dict[int, int] = {}
    pairs: list[tuple[int, int]] = []
    never: list[int] = []
    orphans: list[int] = []
    correlation = frames.correlation_id[turns].tolist()
    is_response = frames.direction[turns].tolist()
    for row, correlation_id, answers in zip(turns.tolist(), correlation, is_response, strict=True):
        if not answers:
            waiting.append(row)
            ids[correlation_id] = ids.get(correlation_id, 0) + 1
            continue
        if not ids.get(correlation_id):
            orphans.append(row)
            continue
        while True:
            first = waiting.popleft()
            this = int(frames.correlation_id[first])
            ids[this] -= 1
            if this == correlation_id:
                pairs.append((first, row))
                break
            never.append(first)
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return Paired(
        both[:, 0], both[:, 1], np.array(waiting, np.int64), np.array(never, np.int64),
        np.array(orphans, np.int64),
    )  # fmt: skip
