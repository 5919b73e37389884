"""Compile Construct trees to Python source: functions that parse and build messages.

Interpreting a tree is a hundred times slower than running the source compiled from it, and
construct's own compiler supports neither Kafka's lengths nor its tags. `source` collects the text
of a module; `parsers` and `builders` write its functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.generator.builders import BuildCompiler
from kafkalite.protocol.generator.parsers import ParseCompiler
from kafkalite.protocol.generator.source import SourceModule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.protocol.primitives import KafkaStruct


def compile_module(
    parsers: Mapping[str, KafkaStruct],
    builders: Mapping[str, KafkaStruct],
    *,
    has_hooks: bool = False,
) -> str:
    """Return a module with these parse and build functions; the keys are their names.

    The text has no header and no docstring.
    """
    module = SourceModule(has_hooks=has_hooks)
    for name, tree in parsers.items():
        ParseCompiler(module).compile(name, tree)
    for name, tree in builders.items():
        BuildCompiler(module).compile(name, tree)
    return module.render()
