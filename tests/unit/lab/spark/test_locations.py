"""Locations: paths, URLs and patterns, and atomic writes."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.spark.locations import LocationError, find, location

if TYPE_CHECKING:
    from pathlib import Path


def create_files(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


def names(folder: Path, *patterns: str) -> list[str]:
    urls = [f"{folder}/{pattern}" if pattern else str(folder) for pattern in patterns]
    return [found.url.removeprefix(f"{folder}/") for found in find(urls)]


def test_folder_lists_all_files_except_hidden_ones(tmp_path: Path) -> None:
    create_files(tmp_path, "b.pcap", "a/1.pcapng", ".x/2", "_state/3", "a/.4", "a/_5", "a/c_6")
    assert names(tmp_path, "") == ["a/1.pcapng", "a/c_6", "b.pcap"]


def test_folder_reached_by_several_links_is_listed_once(tmp_path: Path) -> None:
    create_files(tmp_path, "in/1.pcap", "in/deep/2.pcap")
    (tmp_path / "in" / "deep" / "loop").symlink_to(tmp_path)
    (tmp_path / "in" / "again").symlink_to(tmp_path / "in")
    for name in ("also", "and"):
        (tmp_path / name).symlink_to(tmp_path / "in" / "deep")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    assert names(tmp_path, "") == ["also/2.pcap", "in/1.pcap"]


def test_folder_inside_a_hidden_one_can_be_listed(tmp_path: Path) -> None:
    create_files(tmp_path / ".hidden" / "_in", "1")
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
def test_patterns_match_as_in_a_shell(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    create_files(tmp_path, "a.pcap", "b.pcap", "in/c.pcap", "in/deep/d.pcap", "e.txt")
    assert names(tmp_path, pattern) == expected


def test_existing_file_takes_precedence_over_its_name_as_a_pattern(tmp_path: Path) -> None:
    create_files(tmp_path, "a[1].pcap", "a1.pcap")
    assert names(tmp_path, "a[1].pcap") == ["a[1].pcap"]


def test_file_listed_twice_is_returned_once(tmp_path: Path) -> None:
    create_files(tmp_path, "a.pcap", "b.pcap")
    [first, second] = find([str(tmp_path), f"file://{tmp_path}/b.pcap"])
    assert (first.size, first.modified_ns) == (6, (tmp_path / "a.pcap").stat().st_mtime_ns)
    assert second.url == f"{tmp_path}/b.pcap"


def test_links_to_listed_files_are_skipped(tmp_path: Path) -> None:
    create_files(tmp_path, "in/b.pcap", "elsewhere/d.pcap", "elsewhere/e.pcap")
    for name, target in {
        "in/a.pcap": "in/b.pcap",
        "in/latest.pcap": "in/b.pcap",
        "in/d-1.pcap": "elsewhere/d.pcap",
        "in/d-2.pcap": "in/d-1.pcap",
        "in/e.pcap": "elsewhere/e.pcap",
    }.items():
        (tmp_path / name).symlink_to(tmp_path / target)
    assert names(tmp_path, "in") == ["in/b.pcap", "in/d-1.pcap", "in/e.pcap"]
    (tmp_path / "also-in").symlink_to(tmp_path / "in")
    listed = ["also-in/d-1.pcap", "also-in/e.pcap", "in/b.pcap"]
    assert names(tmp_path, "also-in", "in/*.pcap") == listed


def test_file_has_one_name_from_all_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_files(tmp_path, "in/a.pcap", "far/away/b.pcap")
    monkeypatch.chdir(tmp_path / "far")
    (tmp_path / "link").symlink_to(tmp_path / "far" / "away")
    for given, path in {
        "../in/a.pcap": "in/a.pcap",
        "away/../../in/*.pcap": "in/*.pcap",
        "..": "",
        f"file://{tmp_path}/link/../away": "far/away",
        f"{tmp_path}/link/b..": "link/b..",
    }.items():
        location.cache_clear()
        assert location(given).path == str(tmp_path / path)


def test_files_below_the_output_folder_are_skipped(tmp_path: Path) -> None:
    create_files(tmp_path, "a.pcap", "out/b.parquet", "outer/c.pcap")
    found = find([str(tmp_path)], excluded=location(str(tmp_path / "out")))
    assert [row.url.removeprefix(f"{tmp_path}/") for row in found] == ["a.pcap", "outer/c.pcap"]


@pytest.mark.parametrize("url", ["nowhere", "*.pcap", "nowhere/*.pcap"])
def test_error_for_a_missing_location_is_one_line(tmp_path: Path, url: str) -> None:
    with pytest.raises(LocationError) as error:
        find([f"{tmp_path}/{url}"])
    assert url in str(error.value)
    assert "\n" not in str(error.value)


def test_error_for_an_unknown_scheme_is_one_line() -> None:
    with pytest.raises(LocationError, match="nosuch") as error:
        location("nosuch://bucket/path")
    assert "\n" not in str(error.value)


def test_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    # Arguments have surrogates for such bytes; names in folders have the bytes.
    (tmp_path / os.fsdecode(b"a\xff.pcap")).touch()
    with pytest.raises(LocationError, match=r"a\\xff\.pcap"):
        find([str(tmp_path)])
    with pytest.raises(LocationError, match=r"a\\xff\.pcap"):
        location(os.fsdecode(b"a\xff.pcap"))


def test_pattern_matches_names_with_line_breaks(tmp_path: Path) -> None:
    create_files(tmp_path, "a\nb.pcap", "in/a\nc.pcap")
    assert names(tmp_path, "a\n*.pcap", "**/a?c.pcap") == ["a\nb.pcap", "in/a\nc.pcap"]


def test_reading_invalid_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "note.json").write_bytes(b"\xff")
    with pytest.raises(LocationError, match=r"note\.json: not a UTF-8 text"):
        (location(str(tmp_path)) / "note.json").read_text()


def test_text_is_replaced_as_a_whole(tmp_path: Path) -> None:
    here = location(str(tmp_path)) / "a" / "b.json"
    assert here.read_text() is None
    here.write_text("first")
    here.write_text("second")
    assert here.read_text() == "second"
    assert list((location(str(tmp_path))).walk()) == ["a/b.json"]


def test_move_replaces_the_target_and_delete_can_be_repeated(tmp_path: Path) -> None:
    root = location(f"file://{tmp_path}")
    create_files(tmp_path, "a", "b", "in/c")
    (root / "a").move_to(root / "b")
    (root / "in").delete()
    (root / "in").delete()
    assert [*root.walk()] == ["b"]
    assert (tmp_path / "b").read_bytes() == b"a"


def test_location_can_be_pickled(tmp_path: Path) -> None:
    create_files(tmp_path, "a")
    copy = pickle.loads(pickle.dumps(location(str(tmp_path))))  # noqa: S301 - our own bytes
    assert [*copy.walk()] == ["a"]


def test_missing_folder_has_no_files(tmp_path: Path) -> None:
    assert [*(location(str(tmp_path)) / "nowhere").walk()] == []
