"""Paths, URLs and patterns → files; what is written is there whole or not at all."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

import pytest

from kafkalite.spark.places import PlaceError, find, place

if TYPE_CHECKING:
    from pathlib import Path


def lay(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


def names(folder: Path, *patterns: str) -> list[str]:
    urls = [f"{folder}/{pattern}" if pattern else str(folder) for pattern in patterns]
    return [found.url.removeprefix(f"{folder}/") for found in find(urls)]


def test_a_folder_stands_for_all_below_it_but_what_is_hidden(tmp_path: Path) -> None:
    lay(tmp_path, "b.pcap", "a/1.pcapng", ".x/2", "_state/3", "a/.4", "a/_5", "a/c_6")
    assert names(tmp_path, "") == ["a/1.pcapng", "a/c_6", "b.pcap"]


def test_a_folder_is_gone_through_once_however_many_links_lead_to_it(tmp_path: Path) -> None:
    lay(tmp_path, "in/1.pcap", "in/deep/2.pcap")
    (tmp_path / "in" / "deep" / "loop").symlink_to(tmp_path)
    (tmp_path / "in" / "again").symlink_to(tmp_path / "in")
    for name in ("also", "and"):
        (tmp_path / name).symlink_to(tmp_path / "in" / "deep")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    assert names(tmp_path, "") == ["also/2.pcap", "in/1.pcap"]


def test_a_folder_may_itself_lie_in_a_hidden_one(tmp_path: Path) -> None:
    lay(tmp_path / ".hidden" / "_in", "1")
    assert names(tmp_path / ".hidden" / "_in", "") == ["1"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.pcap", ["a.pcap", "b.pcap"]),
        ("?.pcap", ["a.pcap", "b.pcap"]),
        ("[!a].pcap", ["b.pcap"]),
        ("*/*.pcap", ["in/c.pcap"]),
        ("**/*.pcap", ["a.pcap", "b.pcap", "in/c.pcap", "in/deep/d.pcap"]),
        ("in/**", ["in/c.pcap", "in/deep/d.pcap"]),
        ("a.pcap", ["a.pcap"]),
    ],
)
def test_patterns_are_a_shells(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    lay(tmp_path, "a.pcap", "b.pcap", "in/c.pcap", "in/deep/d.pcap", "e.txt")
    assert names(tmp_path, pattern) == expected


def test_a_name_with_characters_of_patterns_is_itself_first(tmp_path: Path) -> None:
    lay(tmp_path, "a[1].pcap", "a1.pcap")
    assert names(tmp_path, "a[1].pcap") == ["a[1].pcap"]


def test_a_file_named_twice_is_there_once_as_it_is_now(tmp_path: Path) -> None:
    lay(tmp_path, "a.pcap", "b.pcap")
    [first, second] = find([str(tmp_path), f"file://{tmp_path}/b.pcap"])
    assert (first.size, first.modified_ns) == (6, (tmp_path / "a.pcap").stat().st_mtime_ns)
    assert second.url == f"{tmp_path}/b.pcap"


def test_what_we_wrote_is_not_what_we_read(tmp_path: Path) -> None:
    lay(tmp_path, "a.pcap", "out/b.parquet", "outer/c.pcap")
    found = find([str(tmp_path)], without=place(str(tmp_path / "out")))
    assert [each.url.removeprefix(f"{tmp_path}/") for each in found] == ["a.pcap", "outer/c.pcap"]


@pytest.mark.parametrize("url", ["nowhere", "*.pcap", "nowhere/*.pcap"])
def test_a_name_that_leads_nowhere_is_told_in_one_line(tmp_path: Path, url: str) -> None:
    with pytest.raises(PlaceError) as told:
        find([f"{tmp_path}/{url}"])
    assert url in str(told.value)
    assert "\n" not in str(told.value)


def test_a_scheme_that_nothing_knows_is_told_in_one_line() -> None:
    with pytest.raises(PlaceError, match="nosuch") as told:
        place("nosuch://bucket/path")
    assert "\n" not in str(told.value)


def test_a_name_in_no_utf_8_is_told_in_one_line(tmp_path: Path) -> None:
    # An argument of such bytes reaches us with surrogates; a name in a folder does as it is.
    (tmp_path / os.fsdecode(b"a\xff.pcap")).touch()
    with pytest.raises(PlaceError, match=r"a\\xff\.pcap"):
        find([str(tmp_path)])
    with pytest.raises(PlaceError, match=r"a\\xff\.pcap"):
        place(os.fsdecode(b"a\xff.pcap"))


def test_a_pattern_finds_names_of_several_lines(tmp_path: Path) -> None:
    lay(tmp_path, "a\nb.pcap", "in/a\nc.pcap")
    assert names(tmp_path, "a\n*.pcap", "**/a?c.pcap") == ["a\nb.pcap", "in/a\nc.pcap"]


def test_what_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "note.json").write_bytes(b"\xff")
    with pytest.raises(PlaceError, match=r"note\.json: not a text"):
        (place(str(tmp_path)) / "note.json").read_text()


def test_a_text_takes_the_place_of_another_whole(tmp_path: Path) -> None:
    here = place(str(tmp_path)) / "a" / "b.json"
    assert here.read_text() is None
    here.write_text("first")
    here.write_text("second")
    assert here.read_text() == "second"
    assert list((place(str(tmp_path))).walk()) == ["a/b.json"]


def test_moving_replaces_and_deleting_does_no_harm_twice(tmp_path: Path) -> None:
    root = place(f"file://{tmp_path}")
    lay(tmp_path, "a", "b", "in/c")
    (root / "a").move_to(root / "b")
    (root / "in").delete()
    (root / "in").delete()
    assert [*root.walk()] == ["b"]
    assert (tmp_path / "b").read_bytes() == b"a"


def test_a_place_travels_to_workers(tmp_path: Path) -> None:
    lay(tmp_path, "a")
    arrived = pickle.loads(pickle.dumps(place(str(tmp_path))))  # noqa: S301 - our own bytes
    assert [*arrived.walk()] == ["a"]


def test_nothing_is_below_what_is_not_there(tmp_path: Path) -> None:
    assert [*(place(str(tmp_path)) / "nowhere").walk()] == []
