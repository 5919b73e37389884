"""Adapts jars of an earlier release of Kafka to classes that later releases have in other packages.

Maven Central has some parts of Kafka only in an earlier release. They run with the libraries of a
later one after the names of such classes are replaced in the constant pools of their class files.
"""

from __future__ import annotations

import re
import struct
import zipfile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ADAPTED: Final = ("connect-file-", "connect-mirror-", "kafka-shell-", "trogdor-")
"""How the names of the jars begin that may be of an earlier release than the others."""

_UTILS: Final = "org/apache/kafka/common/utils"

MOVED: Final[Mapping[str, str]] = {
    **{
        f"{_UTILS}/{name}": f"{_UTILS}/internals/{name}"
        for name in ("AppInfoParser", "Exit", "LogContext", "Shell", "ThreadUtils")
    },
    "kafka/tools/TerseFailure": "org/apache/kafka/server/util/TerseFailure",
}
"""Classes of Kafka 4.3 → their names in Kafka 4.4."""

_POOL_START: Final = struct.Struct(">4x2x2xH")
_LENGTH: Final = struct.Struct(">H")
_UTF8: Final = 1
# The tags of constants and the sizes of their contents. Numbers of 8 bytes have two indexes.
_SIZES: Final = {
    **dict.fromkeys((7, 8, 16, 19, 20), 2),
    15: 3,
    **dict.fromkeys((3, 4, 9, 10, 11, 12, 17, 18), 4),
    **dict.fromkeys((5, 6), 8),
}
_TWO_INDEXES: Final = 8


def adapt_jars(directory: Path) -> None:
    """Let the adapted jars of a directory name the moved classes as the other jars do."""
    present = {name for jar in directory.glob("kafka*.jar") for name in _class_names(jar)}
    moved = {old: new for old, new in MOVED.items() if new in present and old not in present}
    if not moved:
        return
    for jar in directory.glob("*.jar"):
        if jar.name.startswith(ADAPTED):
            _adapt_jar(jar, moved)


def _class_names(jar: Path) -> list[str]:
    with zipfile.ZipFile(jar) as archive:
        return [name.removesuffix(".class") for name in archive.namelist()]


def _adapt_jar(jar: Path, moved: Mapping[str, str]) -> None:
    adapted = jar.with_suffix(".adapted")
    with zipfile.ZipFile(jar) as source, zipfile.ZipFile(adapted, "w") as target:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename.endswith(".class"):
                content = with_moved_names(content, moved)
            target.writestr(entry, content)
    adapted.replace(jar)


def with_moved_names(class_file: bytes, moved: Mapping[str, str]) -> bytes:
    """Return a class file whose constants have the new names of moved classes."""
    old_names = "|".join(map(re.escape, moved))
    # In a descriptor, an L precedes the name. An inner class has a $ after it.
    name = re.compile(rf"(?:(?<=L)|(?<![\w/]))({old_names})(?!\w)".encode())
    (count,) = _POOL_START.unpack_from(class_file)
    position = _POOL_START.size
    result = bytearray(class_file[:position])
    index = 1
    while index < count:
        tag = class_file[position]
        if tag == _UTF8:
            (length,) = _LENGTH.unpack_from(class_file, position + 1)
            end = position + 1 + _LENGTH.size + length
            text = name.sub(
                lambda found: moved[found[1].decode()].encode(), class_file[end - length : end]
            )
            result += bytes((tag,)) + _LENGTH.pack(len(text)) + text
        else:
            end = position + 1 + _SIZES[tag]
            result += class_file[position:end]
        index += 2 if _SIZES.get(tag) == _TWO_INDEXES else 1
        position = end
    return bytes(result + class_file[position:])
