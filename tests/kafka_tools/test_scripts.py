"""The list of scripts has every tool in the jars of Kafka."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Final

import pytest

from tests.kafka_tools.cases import CASES
from tests.kafka_tools.differences import DIFFERENCES
from tests.kafka_tools.scripts import CLASSES_WITHOUT_SCRIPT, OTHER_SCRIPTS, SCRIPTS
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PACKAGES: Final = (
    "org/apache/kafka/tools/",
    "org/apache/kafka/shell/",
    "org/apache/kafka/trogdor/",
    "kafka/tools/",
    "kafka/admin/",
)
# The constants of a class that has a main method.
_MAIN: Final = (b"\x00\x04main", b"\x00\x16([Ljava/lang/String;)V")


def main_classes(jar: Path) -> Iterator[str]:
    """Yield the tools in a jar: classes with a main method in the packages of tools."""
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith(_PACKAGES) and name.endswith(".class") and "$" not in name:
                content = archive.read(name)
                if all(constant in content for constant in _MAIN):
                    yield name.removesuffix(".class").replace("/", ".")


@pytest.mark.oracle
def test_every_tool_in_the_jars_has_a_row() -> None:
    with required():
        jars = jar_directory()
    patterns = ("kafka*.jar", "trogdor*.jar")
    paths = [path for pattern in patterns for path in jars.glob(pattern)]
    found = {name for path in paths for name in main_classes(path)}
    compared = {name for script in SCRIPTS.values() for name in script.classes}
    others = {script.main_class for script in OTHER_SCRIPTS.values()}
    assert found <= compared | others | set(CLASSES_WITHOUT_SCRIPT)
    assert compared <= found
    assert set(CLASSES_WITHOUT_SCRIPT) <= found


def test_every_script_has_cases() -> None:
    assert {case.tool for case in CASES if case.is_shown} == set(SCRIPTS)


def test_every_difference_is_that_of_a_case() -> None:
    assert set(DIFFERENCES) <= {case.title for case in CASES if case.is_shown}


def test_a_script_is_listed_once() -> None:
    assert not set(SCRIPTS) & set(OTHER_SCRIPTS)
