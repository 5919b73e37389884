"""A directory of data: whose it is, and what is said of one that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.ports.files import OsFiles
from kafkalite.server.home import Home, HomeError
from kafkalite.testing.entropy import SeededEntropy


def opened(path: Path | str | None, seed: int = 0) -> Home:
    return Home(OsFiles(), None if path is None else str(path), 1, SeededEntropy(seed))


def test_a_directory_keeps_its_cluster_id(tmp_path: Path) -> None:
    first = opened(tmp_path / "new" / "deep")
    first.leave({})
    again = opened(first.path, seed=9)
    assert again.cluster_id == first.cluster_id
    again.leave({})
    assert Path(first.path).is_dir()


def test_a_directory_is_marked_as_kafka_marks_it(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    lines = (tmp_path / "meta.properties").read_text().splitlines()
    directory.leave({})
    assert f"cluster.id={directory.cluster_id}" in lines
    assert {"node.id=1", "version=1"} <= set(lines)


def test_a_directory_serves_one_broker_at_a_time(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(HomeError, match="in use"):
        opened(tmp_path)
    first.leave({})
    opened(tmp_path).leave({})


def test_a_directory_whose_logs_were_not_opened_is_left_as_it_was(tmp_path: Path) -> None:
    """Neither called clean, nor robbed of what the next start needs to know."""
    opened(tmp_path).leave({})
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    opened(tmp_path).leave(None)
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\nt 0 5\n"
    assert not opened(tmp_path).directory.was_clean


def test_a_temporary_directory_goes_with_its_broker() -> None:
    directory = opened(None)
    assert directory.is_temporary
    assert Path(directory.path).is_dir()
    directory.leave({})
    assert not Path(directory.path).exists()


def test_a_file_in_its_place_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HomeError) as refusal:
        opened(tmp_path / "file")
    assert "\n" not in str(refusal.value)
    assert str(tmp_path / "file") in str(refusal.value)


@pytest.mark.parametrize("content", [b"", b"version=1\n", b"cluster.id=short\n", b"\xff\xfe"])
def test_a_directory_of_no_cluster_is_refused_and_left_alone(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "meta.properties").write_bytes(content)
    with pytest.raises(HomeError, match=r"meta\.properties"):
        opened(tmp_path)
    assert (tmp_path / "meta.properties").read_bytes() == content
