"""Construct tree → straight-line Python source for parse and build.

A tree is interpreted a hundred times slower than the source compiled from it here, and
construct's own compiler can express neither Kafka's lengths nor its tags. `source` holds the
text of a module as it grows, `compile_parse` and `compile_build` write its functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.compile_build import BuildCompiler
from kafkalite.protocol.compile_parse import ParseCompiler
from kafkalite.protocol.source import SourceModule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.protocol.primitives import KafkaStruct


def compile_module(parsers: Mapping[str, KafkaStruct], builders: Mapping[str, KafkaStruct]) -> str:
    """Write a module with these parse and build functions, each named for its key."""
    module = SourceModule()
    for name, tree in parsers.items():
        ParseCompiler(module).compile(name, tree)
    for name, tree in builders.items():
        BuildCompiler(module).compile(name, tree)
    return module.render()
