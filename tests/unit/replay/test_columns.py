"""What there is in some files, and what was said in them, by column: see `test_loading` as well."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING

from kafkalite.capture.model import ProblemKind
from kafkalite.replay.columns import exchanges_of, surveyed
from tests.captures import damage, traffic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkalite.capture.model import Problem
    from kafkalite.replay.columns import Survey
    from tests.captures.damage import Wired


def packets(seed: int = 1) -> list[Wired]:
    return list(traffic.packets(traffic.clean(Random(seed))))  # noqa: S311 - is to be repeatable


def written(directory: Path, *parts: Sequence[Wired]) -> list[str]:
    paths = [directory / f"part-{number}.pcapng" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        path.write_bytes(damage.kept(part))
    return list(map(str, paths))


def looked_at(files: Sequence[str]) -> Survey:
    survey = surveyed(files)
    assert survey is not None
    return survey


def test_files_are_read_in_the_order_of_time_whatever_their_names(tmp_path: Path) -> None:
    whole = packets()
    half = len(whole) // 2
    late, early = written(tmp_path, whole[half:], whole[:half])

    assert list(looked_at([late, early]).files) == [early, late]


def test_a_connection_that_goes_on_in_another_file_is_one(tmp_path: Path) -> None:
    whole = packets()
    half = len(whole) // 2
    one = looked_at(written(tmp_path, whole))
    two = looked_at(written(tmp_path, whole[:half], whole[half:]))

    def ends(survey: Survey) -> set[str]:
        return {str(each) for each in survey.connections.values()}

    assert ends(one) == ends(two)
    assert not one.continued
    assert {file for file, _ in two.continued} == {two.files[1]}
    # Nor is it told of as one whose beginning is missing.
    problems: list[Problem] = []
    list(exchanges_of(two, problems.append))
    assert ProblemKind.MID_CONNECTION not in {each.kind for each in problems}


def test_what_two_files_show_of_the_same_time_is_for_another_reader(tmp_path: Path) -> None:
    assert surveyed(written(tmp_path, packets(), packets())) is None


def test_positions_count_the_requests_of_a_connection(tmp_path: Path) -> None:
    survey = looked_at(written(tmp_path, packets()))
    positions: defaultdict[int, list[int]] = defaultdict(list)
    for exchange in exchanges_of(survey, lambda _: None):
        positions[exchange.connection.number].append(exchange.position)

    assert len(positions) > 1
    assert all(found == list(range(len(found))) for found in positions.values())
