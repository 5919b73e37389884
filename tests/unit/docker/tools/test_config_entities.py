"""Types of entities."""

from __future__ import annotations

from kafkalite.docker.tools.config_entities import ENTITIES


def test_options_of_types_are_different() -> None:
    options = [each.option for each in ENTITIES.values()]
    assert len(set(options)) == len(options)
