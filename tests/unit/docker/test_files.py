"""Files of a container below a root directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.docker.credentials import Credential
from kafkalite.docker.files import ImageFiles, parse_properties
from kafkalite.docker.properties import VariableError

if TYPE_CHECKING:
    from pathlib import Path


def test_paths_are_below_the_root(tmp_path: Path) -> None:
    files = ImageFiles.of({"KAFKALITE_ROOT": str(tmp_path)})
    (tmp_path / "a").write_bytes(b"x\xff")
    assert files.path("/a") == str(tmp_path / "a")
    assert files.read_text("/a") == "x\ufffd"
    assert files.read_text("/none") is None
    assert not files.is_mounted("/a")
    assert ImageFiles.of({}).path("/a") == "/a"


def test_relative_paths_of_arguments_begin_at_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("x")
    assert ImageFiles().read_argument("a") == "x"
    assert ImageFiles().read_argument("none") is None
    assert ImageFiles(str(tmp_path)).read_argument("/a") == "x"


def test_mounted_properties_are_those_of_brokers(tmp_path: Path) -> None:
    files = ImageFiles(str(tmp_path))
    assert files.mounted_properties() == {}
    directory = tmp_path / "mnt" / "shared" / "config"
    directory.mkdir(parents=True)
    (directory / "server.properties").write_text("num.partitions = 3\nunknown.key=1\n")
    assert files.mounted_properties() == {"num.partitions": "3"}


def test_invalid_properties_file_is_refused() -> None:
    with pytest.raises(VariableError, match="cannot read properties file /p"):
        parse_properties("a=\\u12", "/p")


def test_formatted_users_are_stored_once(tmp_path: Path) -> None:
    files = ImageFiles(str(tmp_path))
    assert files.formatted_users() == []
    alice = Credential("alice", "a", "SCRAM-SHA-256")
    bob = Credential("bob", "b", "SCRAM-SHA-512")
    files.add_formatted_users([alice])
    files.add_formatted_users([alice, bob])
    assert files.formatted_users() == [alice, bob]
    (stored,) = (tmp_path / "var" / "lib" / "kafkalite").iterdir()
    assert stored.stat().st_mode & 0o077 == 0


def test_stored_users_are_not_written_to_a_file_of_another_user(tmp_path: Path) -> None:
    files = ImageFiles(str(tmp_path))
    alice, bob = Credential("alice", "a", "PLAIN"), Credential("bob", "b", "PLAIN")
    files.add_formatted_users([alice])
    (stored,) = (tmp_path / "var" / "lib" / "kafkalite").iterdir()
    linked = tmp_path / "linked"
    stored.rename(linked)
    linked.chmod(0o644)
    stored.symlink_to(linked)
    content = linked.read_bytes()
    files.add_formatted_users([bob])
    assert files.formatted_users() == [alice, bob]
    assert linked.read_bytes() == content
    assert stored.lstat().st_mode & 0o077 == 0


def test_users_in_a_changed_file_are_refused(tmp_path: Path) -> None:
    files = ImageFiles(str(tmp_path))
    files.add_formatted_users([Credential("alice", "a", "PLAIN")])
    (stored,) = (tmp_path / "var" / "lib" / "kafkalite").iterdir()
    for text in ("{secret", '["secret"]', "7"):
        stored.write_text(text)
        with pytest.raises(VariableError, match="remove the file") as raised:
            files.formatted_users()
        assert "secret" not in str(raised.value)
