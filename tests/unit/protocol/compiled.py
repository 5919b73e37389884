"""Compiled codecs for tests of the compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.generator.codecs import compile_module
from kafkalite.protocol.schema import message_tree
from kafkalite.protocol.spec import load_spec

if TYPE_CHECKING:
    from kafkalite.protocol.codec import Builder, Parser
    from kafkalite.protocol.primitives import KafkaStruct


def tree(name: str, version: int) -> KafkaStruct:
    """Build the tree of an API's message."""
    return message_tree(load_spec("apis", name), version)


def source(name: str, version: int) -> str:
    """Compile both directions of one version."""
    found = tree(name, version)
    return compile_module({"parse": found}, {"build": found})


def functions(name: str, version: int) -> tuple[Parser, Builder]:
    """Compile both directions of one version and load them."""
    names: dict[str, object] = {}
    exec(source(name, version), names)  # noqa: S102 - the text is ours
    return names["parse"], names["build"]  # type: ignore[return-value]
