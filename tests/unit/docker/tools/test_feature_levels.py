"""Levels of features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.config.releases import emulated_release
from kafkalite.docker.tools.arguments import ToolError
from kafkalite.docker.tools.feature_levels import (
    LATEST,
    METADATA_VERSION,
    feature_and_level,
    levels_of,
    metadata_level,
    write_dependencies,
    write_version_mapping,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def test_new_clusters_have_the_levels_of_the_release() -> None:
    formatted = {name: each.formatted for name, each in emulated_release(None).features.items()}
    levels = {METADATA_VERSION: metadata_level(LATEST), **levels_of(LATEST)}
    assert {name: level for name, level in formatted.items() if name in levels} == levels


def test_dependencies_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    write_dependencies(["eligible.leader.replicas.version=1", "metadata.version=23"])
    assert capsys.readouterr().out.splitlines() == [
        "eligible.leader.replicas.version=1 requires:",
        "    metadata.version=23 (4.0-IV1)",
        "metadata.version=23 (4.0-IV1) has no dependencies.",
    ]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: write_version_mapping("9.9"), "Unknown metadata.version '9.9'"),
        (lambda: write_dependencies(["none=1"]), "Unknown feature: none"),
        (lambda: write_dependencies(["share.version=7"]), "Feature level 7 is not supported"),
        (lambda: feature_and_level("a"), "equals sign not found"),
        (lambda: feature_and_level("a=b"), "unable to parse b as a short"),
    ],
)
def test_unknown_levels_are_refused(call: Callable[[], object], error: str) -> None:
    with pytest.raises(ToolError, match=error):
        call()
