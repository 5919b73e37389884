"""Jars of an earlier release name moved classes as later releases do."""

from __future__ import annotations

import struct
import zipfile
from typing import TYPE_CHECKING

from tests.oracle.moved_classes import adapt_jars, with_moved_names

if TYPE_CHECKING:
    from pathlib import Path

_UTILS = "org/apache/kafka/common/utils"
_EXIT, _MOVED_EXIT = f"{_UTILS}/Exit", f"{_UTILS}/internals/Exit"


def text(value: str) -> bytes:
    return b"\x01" + struct.pack(">H", len(value)) + value.encode()


def class_file(*constants: bytes, indexes: int) -> bytes:
    """Return the beginning of a class file and four bytes that stand for the rest of it."""
    head = b"\xca\xfe\xba\xbe" + struct.pack(">HHH", 0, 61, indexes + 1)
    return head + b"".join(constants) + b"rest"


def test_names_are_replaced_in_texts_and_other_constants_remain() -> None:
    a_long, a_class, a_handle = b"\x05" + bytes(8), b"\x07\x00\x01", b"\x0f\x06\x00\x01"
    before = class_file(
        text(_EXIT),
        a_long,  # two indexes
        a_class,
        text(f"(IL{_EXIT}$Procedure;)V"),
        a_handle,
        text(f"{_EXIT}Code and my/{_EXIT}"),
        indexes=7,
    )
    after = class_file(
        text(_MOVED_EXIT),
        a_long,
        a_class,
        text(f"(IL{_MOVED_EXIT}$Procedure;)V"),
        a_handle,
        text(f"{_EXIT}Code and my/{_EXIT}"),
        indexes=7,
    )
    assert with_moved_names(before, {_EXIT: _MOVED_EXIT}) == after


def write_jar(path: Path, entries: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as jar:
        for name, content in entries.items():
            jar.writestr(name, content)


def read_jar(path: Path) -> bytes:
    with zipfile.ZipFile(path) as jar:
        return jar.read("A.class")


def test_a_jar_is_adapted_if_the_others_have_the_moved_class(tmp_path: Path) -> None:
    before = class_file(text(_EXIT), indexes=1)
    write_jar(tmp_path / "kafka-clients-4.4.0.jar", {f"{_MOVED_EXIT}.class": b""})
    write_jar(tmp_path / "connect-file-4.3.1.jar", {"A.class": before})
    write_jar(tmp_path / "kafka-raft-4.4.0.jar", {"A.class": before})
    adapt_jars(tmp_path)
    adapted = class_file(text(_MOVED_EXIT), indexes=1)
    assert read_jar(tmp_path / "connect-file-4.3.1.jar") == adapted
    assert read_jar(tmp_path / "kafka-raft-4.4.0.jar") == before


def test_jars_of_one_release_remain_as_they_are(tmp_path: Path) -> None:
    before = class_file(text(_EXIT), indexes=1)
    write_jar(tmp_path / "kafka-clients-4.3.1.jar", {f"{_EXIT}.class": b""})
    write_jar(tmp_path / "connect-file-4.3.1.jar", {"A.class": before})
    adapt_jars(tmp_path)
    assert read_jar(tmp_path / "connect-file-4.3.1.jar") == before
