"""Exchanges by the scalar and the columnar reader are equal, however files are split."""

# ruff: noqa: S311 - damage must be repeatable

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.lab.replay import columnar_loading, loading
from kafkalite.lab.replay.loading import load
from tests.captures import damage, traffic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkalite.capture.model import Exchange, Problem
    from tests.captures.damage import TcpPacket

_US_NS = 1000


def write_parts(packets: Sequence[TcpPacket], parts: int, directory: Path) -> list[Path]:
    """Split packets into several files."""
    size = len(packets) // parts + 1
    paths = [directory / f"part-{number}.pcapng" for number in range(parts)]
    for number, path in enumerate(paths):
        path.write_bytes(damage.capture_file(packets[number * size : (number + 1) * size]))
    return paths


def contents(found: Sequence[Exchange]) -> list[tuple[Any, ...]]:
    """Return the contents of exchanges, ordered by connection and by position on it."""
    opened = {row.connection.number: row.connection.opened_ns or 0 for row in found}
    assert len({(opened[number], number) for number in opened}) == len(opened)
    ordered = sorted(
        found, key=lambda each: (opened[each.connection.number], each.sent_ns, each.position)
    )
    return [
        (
            exchange.connection.client, exchange.connection.broker, exchange.connection.node_id,
            exchange.connection.opened_ns, exchange.api_key, exchange.api_version,
            exchange.correlation_id, exchange.client_id, exchange.sent_ns // _US_NS,
            None if exchange.answered_ns is None else exchange.answered_ns // _US_NS,
            exchange.request, exchange.request_start, exchange.response,
            exchange.response_start if exchange.response is not None else 0,
        )
        for exchange in ordered
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("parts", [1, 3])
def test_columnar_reader_equals_scalar_reader(tmp_path: Path, seed: int, parts: int) -> None:
    packets = damage.segment(traffic.packets(traffic.clean(Random(seed))), Random(seed), 300)
    paths = write_parts(packets, parts, tmp_path)
    problems: list[Problem] = []
    scalar = list(load(paths, problems.append))
    columnar = list(load([tmp_path], problems.append, large_bytes=0))
    assert contents(columnar) == contents(scalar)
    assert {type(exchange.request) for exchange in columnar} == {bytes}
    assert not problems


def test_exchanges_in_two_files_are_yielded_once(tmp_path: Path) -> None:
    """Packets are captured twice at the client and at the broker."""
    packets = traffic.packets(traffic.clean(Random(1)))
    for name in ("client", "broker"):
        (tmp_path / f"{name}.pcapng").write_bytes(damage.capture_file(packets))
    problems: list[Problem] = []
    once = list(load([tmp_path / "client.pcapng"], problems.append))
    twice = list(load([tmp_path], problems.append, large_bytes=0))
    assert contents(twice) == contents(once)


def test_unreadable_file_is_reported_once(tmp_path: Path) -> None:
    packets = traffic.packets(traffic.clean(Random(1)))
    (tmp_path / "good.pcapng").write_bytes(damage.capture_file(packets))
    (tmp_path / "bad.pcapng").write_bytes(b"no capture at all")
    problems: list[Problem] = []
    assert list(load([tmp_path], problems.append, large_bytes=0))
    assert [problem.file for problem in problems] == [str(tmp_path / "bad.pcapng")]
    problems.clear()
    assert not list(load([tmp_path / "missing"], problems.append, large_bytes=0))
    assert [problem.file for problem in problems] == [str(tmp_path / "missing")]


def test_scalar_reader_is_used_without_columnar_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = write_parts(traffic.packets(traffic.clean(Random(1))), 1, tmp_path)
    monkeypatch.setattr(loading, "find_spec", lambda _: None)
    monkeypatch.setattr(
        columnar_loading, "index_connections", lambda _: pytest.fail("there is no numpy")
    )
    problems: list[Problem] = []
    assert list(load([path], problems.append, large_bytes=0))
