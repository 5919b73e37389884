"""YAML whose values know their line and column, so that an error can name them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_BYTES: Final = 1024 * 1024
MAX_NUMBER_BITS: Final = 1023
"""Bits up to which a whole number can be a floating point number; others are texts."""
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


class YamlError(ValueError):
    """A text that is no YAML, or a value in it that is invalid; it names line and column."""

    def __init__(self, source: str, mark: yaml.Mark | None, text: str) -> None:
        position = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
        super().__init__(f"{source}{position}: {text}")


class _Loader(yaml.SafeLoader):
    """Composes nodes without aliases, which could make a small file large."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in the base class
        first: [each for each in resolvers if each[0] != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401
        """Return the next node; raises MarkedYAMLError for an alias."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not supported", problem_mark=mark)
        return super().compose_node(parent, index)


class PositionedYaml:
    """A mapping, a list or a scalar of a YAML text."""

    def __init__(self, source: str, node: yaml.Node) -> None:
        self.source = source
        """The name of the text in errors."""
        self.node = node
        """The node, with its position."""

    @classmethod
    def parse(cls, source: str, text: str) -> PositionedYaml:
        """Return the document of a text from `source`; raises YamlError."""
        try:
            node = yaml.compose(text, _Loader)
        except yaml.MarkedYAMLError as error:
            text = " ".join(filter(None, (error.context, error.problem)))
            raise YamlError(source, error.problem_mark, text) from error
        except (yaml.YAMLError, RecursionError) as error:
            reason = " ".join(str(error).split())[:200]
            raise YamlError(source, None, f"no valid YAML: {reason}") from error
        if node is None:
            node = yaml.MappingNode("tag:yaml.org,2002:map", [])
        return cls(source, node)

    @property
    def value(self) -> Any:  # noqa: ANN401 - any JSON value
        """The value as JSON has it.

        Raises YamlError for a key that is given twice, and for a value that JSON does not have.
        """
        node = self.node
        if isinstance(node, yaml.MappingNode):
            found: dict[str, Any] = {}
            for key, each in self.pairs():
                if key.value in found:
                    raise YamlError(self.source, key.start_mark, f"{key.value!r} is given twice")
                found[key.value] = PositionedYaml(self.source, each).value
            return found
        if isinstance(node, yaml.SequenceNode):
            return [each.value for each in self.elements]
        return self._scalar(node)

    def _scalar(self, node: yaml.Node) -> object:
        loader = _Loader("")
        try:
            found = loader.construct_object(node)
        except (ValueError, yaml.YAMLError):
            return node.value
        finally:
            loader.dispose()
        if isinstance(found, int) and found.bit_length() > MAX_NUMBER_BITS:
            return node.value
        if found is not None and not isinstance(found, str | int | float):
            raise YamlError(
                self.source,
                node.start_mark,
                f"the tag {node.tag!r} is not supported: JSON lacks it",
            )
        return found

    @property
    def elements(self) -> list[PositionedYaml]:
        """The elements of a list; empty for another value."""
        node = self.node
        inner = node.value if isinstance(node, yaml.SequenceNode) else []
        return [PositionedYaml(self.source, each) for each in inner]

    def get(self, name: str) -> PositionedYaml | None:
        """Return the value of a key, None if there is none."""
        for key, each in self.pairs():
            if key.value == name:
                return PositionedYaml(self.source, each)
        return None

    def error(self, text: str) -> YamlError:
        """Return the error with a text, which may begin with the path of the wrong value.

        A text like "match has no field 'topics'" is about the key.
        """
        found, path = self, re.match(r"[\w.]+", text)
        for name in path[0].split(".") if path else ():
            inner = found.get(name)
            if inner is None:
                break
            found = inner
        mark = found.node.start_mark
        if unknown := re.search(r"has no \w+ '([^']*)'", text):
            keys = (key for key, _ in found.pairs() if key.value[:40] == unknown[1])
            mark = next((key.start_mark for key in keys), mark)
        return YamlError(self.source, mark, text)

    def error_at(self, path: Sequence[str], text: str) -> YamlError:
        """Return the error with a text about the value at a path, or the last part of it."""
        found = self
        for name in path:
            found = found.get(name) or found
        return YamlError(self.source, found.node.start_mark, text)

    def pairs(self) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
        """Yield the keys and values of a mapping; raises YamlError for a key that is no text."""
        for key, each in self.node.value if isinstance(self.node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode):
                raise YamlError(self.source, key.start_mark, "a key must be a text")
            yield key, each
