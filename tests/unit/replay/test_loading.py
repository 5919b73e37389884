"""Exchanges of captures, frame by frame and in columns: the same, however the files are cut."""

# ruff: noqa: S311 - damage is to be repeatable

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.replay import columns, loading
from kafkalite.replay.loading import load
from tests.captures import damage, traffic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkalite.capture.model import Exchange, Problem
    from tests.captures.damage import Wired

_US_NS = 1000


def cut(packets: Sequence[Wired], parts: int, directory: Path) -> list[Path]:
    """Write packets to some files, one after the other."""
    size = len(packets) // parts + 1
    paths = [directory / f"part-{number}.pcapng" for number in range(parts)]
    for number, path in enumerate(paths):
        path.write_bytes(damage.kept(packets[number * size : (number + 1) * size]))
    return paths


def told(found: Sequence[Exchange]) -> list[tuple[Any, ...]]:
    """Return what exchanges say, connection by connection, in the order of their places on them."""
    opened = {each.connection.number: each.connection.opened_ns or 0 for each in found}
    assert len({(opened[number], number) for number in opened}) == len(opened)
    ordered = sorted(
        found, key=lambda each: (opened[each.connection.number], each.sent_ns, each.position)
    )
    return [
        (
            each.connection.client, each.connection.broker, each.connection.node_id,
            each.connection.opened_ns, each.api_key, each.api_version, each.correlation_id,
            each.client_id, each.sent_ns // _US_NS,
            None if each.answered_ns is None else each.answered_ns // _US_NS,
            each.request, each.request_start, each.response,
            each.response_start if each.response is not None else 0,
        )
        for each in ordered
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("parts", [1, 3])
def test_columns_say_what_frames_say(tmp_path: Path, seed: int, parts: int) -> None:
    packets = damage.segmented(traffic.packets(traffic.clean(Random(seed))), Random(seed), 300)
    paths = cut(packets, parts, tmp_path)
    problems: list[Problem] = []
    by_frames = list(load(paths, problems.append))
    by_columns = list(load([tmp_path], problems.append, large_bytes=0))
    assert told(by_columns) == told(by_frames)
    assert {type(each.request) for each in by_columns} == {bytes}
    assert not problems


def test_what_two_files_show_twice_is_there_once(tmp_path: Path) -> None:
    """As where packets are caught by the client and by the broker."""
    packets = traffic.packets(traffic.clean(Random(1)))
    for name in ("client", "broker"):
        (tmp_path / f"{name}.pcapng").write_bytes(damage.kept(packets))
    problems: list[Problem] = []
    once = list(load([tmp_path / "client.pcapng"], problems.append))
    twice = list(load([tmp_path], problems.append, large_bytes=0))
    assert told(twice) == told(once)


def test_what_cannot_be_read_is_told_once(tmp_path: Path) -> None:
    packets = traffic.packets(traffic.clean(Random(1)))
    (tmp_path / "good.pcapng").write_bytes(damage.kept(packets))
    (tmp_path / "bad.pcapng").write_bytes(b"no capture at all")
    problems: list[Problem] = []
    assert list(load([tmp_path], problems.append, large_bytes=0))
    assert [each.file for each in problems] == [str(tmp_path / "bad.pcapng")]
    problems.clear()
    assert not list(load([tmp_path / "nowhere"], problems.append, large_bytes=0))
    assert [each.file for each in problems] == [str(tmp_path / "nowhere")]


def test_without_the_libraries_for_columns_frames_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = cut(traffic.packets(traffic.clean(Random(1))), 1, tmp_path)
    monkeypatch.setattr(loading, "find_spec", lambda _: None)
    monkeypatch.setattr(columns, "surveyed", lambda _: pytest.fail("there is no numpy"))
    problems: list[Problem] = []
    assert list(load([path], problems.append, large_bytes=0))
