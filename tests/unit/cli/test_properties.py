"""Properties files: parsing, unknown keys, unreadable files."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.properties import read_properties
from kafkalite.server.logging import Log
from kafkalite.server.settings import SettingsError

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path) -> tuple[dict[str, str], list[str]]:
    """Return the settings in a file, and the lines logged about it."""
    output = io.StringIO()
    found = read_properties(str(path), Log(stream=output))
    return found, output.getvalue().splitlines()


def test_comments_continuations_and_escapes_are_parsed(tmp_path: Path) -> None:
    file = tmp_path / "p"
    file.write_text("# comment\nnum.partitions : 3\ncompression.type \\\n  = g\\u007aip\n")
    assert read(file) == ({"num.partitions": "3", "compression.type": "gzip"}, [])


def test_unknown_key_is_ignored_with_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "p"
    file.write_text(
        "zookeeper.connect=h:1\nnum.partitions=3\n"
        "listener.name.plaintext.connections.max.reauth.ms=1\nrsm.config.mine=1\n"
    )
    found, output = read(file)
    assert list(found) == [
        "num.partitions",
        "listener.name.plaintext.connections.max.reauth.ms",
        "rsm.config.mine",
    ]
    (line,) = output
    assert "zookeeper.connect" in line
    assert str(file) in line


def test_keys_of_the_emulated_release_are_known(tmp_path: Path) -> None:
    file = tmp_path / "p"
    file.write_text("log.message.downconversion.enable=false\nnum.io.thread=3\n")
    output = io.StringIO()
    found = read_properties(str(file), Log(stream=output), "3.9")
    assert found == {"log.message.downconversion.enable": "false"}
    assert "downconversion" not in output.getvalue()
    assert read_properties(str(file), Log(stream=output), "4.0") == {}


@pytest.mark.parametrize("content", [b"a=\\u12", None])
def test_unreadable_file_is_rejected(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "p"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=str(file)):
        read(file)
