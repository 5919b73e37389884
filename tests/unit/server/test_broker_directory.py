"""BrokerDirectory: the id of its cluster, and unusable directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.ports.files import OsFiles
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.server.broker_directory import (
    BrokerDirectory,
    BrokerDirectoryError,
    check_has_no_data,
)

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"


def open_directory(
    path: Path | str | None, seed: int = 0, cluster_id: str | None = None
) -> BrokerDirectory:
    text = None if path is None else str(path)
    return BrokerDirectory(OsFiles(), text, 1, SeededEntropy(seed), cluster_id=cluster_id)


def test_a_directory_has_a_permanent_cluster_id(tmp_path: Path) -> None:
    first = open_directory(tmp_path / "new" / "deep")
    first.close({})
    again = open_directory(first.path, seed=9)
    assert again.cluster_id == first.cluster_id
    again.close({})
    assert Path(first.path).is_dir()


def test_a_new_directory_has_the_requested_cluster_id(tmp_path: Path) -> None:
    for requested in (CLUSTER_ID, CLUSTER_ID, None):
        directory = open_directory(tmp_path, cluster_id=requested)
        assert directory.cluster_id == CLUSTER_ID
        directory.close({})


def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    first = open_directory(tmp_path)
    first.close({})
    with pytest.raises(
        BrokerDirectoryError, match=f"cluster {first.cluster_id}, not to {CLUSTER_ID}"
    ):
        open_directory(tmp_path, cluster_id=CLUSTER_ID)
    open_directory(tmp_path).close({})


def test_an_invalid_cluster_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BrokerDirectoryError, match="'test' is not a UUID in URL-safe base64"):
        open_directory(tmp_path, cluster_id="test")


def test_meta_properties_are_those_of_kafka(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    lines = (tmp_path / "meta.properties").read_text().splitlines()
    directory.close({})
    assert f"cluster.id={directory.cluster_id}" in lines
    assert {"node.id=1", "version=1"} <= set(lines)


def test_a_directory_is_locked_by_one_broker(tmp_path: Path) -> None:
    first = open_directory(tmp_path)
    with pytest.raises(BrokerDirectoryError, match="in use"):
        open_directory(tmp_path)
    first.close({})
    open_directory(tmp_path).close({})


def test_a_directory_whose_logs_were_not_opened_is_unchanged(tmp_path: Path) -> None:
    """It is neither marked as clean, nor are its checkpoints changed."""
    open_directory(tmp_path).close({})
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    open_directory(tmp_path).close(None)
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\nt 0 5\n"
    assert not open_directory(tmp_path).directory.was_shut_down_cleanly


def test_a_file_at_the_path_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BrokerDirectoryError) as refusal:
        open_directory(tmp_path / "file")
    assert "\n" not in str(refusal.value)
    assert str(tmp_path / "file") in str(refusal.value)


@pytest.mark.parametrize("content", [b"", b"version=1\n", b"cluster.id=short\n", b"\xff\xfe"])
def test_a_directory_without_a_cluster_id_is_rejected_unchanged(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "meta.properties").write_bytes(content)
    with pytest.raises(BrokerDirectoryError, match=r"meta\.properties"):
        open_directory(tmp_path)
    assert (tmp_path / "meta.properties").read_bytes() == content


def test_a_directory_that_is_only_a_name_has_no_data(tmp_path: Path) -> None:
    used, other = str(tmp_path / "used"), str(tmp_path / "other")
    check_has_no_data(OsFiles(), other, used)
    open_directory(other).close({})
    message = f"^log directory {other} has data of its own, but kafkalite reads only {used}"
    with pytest.raises(BrokerDirectoryError, match=message):
        check_has_no_data(OsFiles(), other, used)
