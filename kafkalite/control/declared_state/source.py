"""A declared state from a file, a mapping or a scenario, with the positions of its errors."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalite.config.typed_json import quote, to_json
from kafkalite.control.declared_state.contents import ContentReader
from kafkalite.control.declared_state.json_values import check_json, unique_members
from kafkalite.control.declared_state.shape import MisplacedError, State, state_of
from kafkalite.control.positioned_yaml import PositionedYaml, YamlError
from kafkalite.server.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from os import PathLike

    from kafkalite.control.declared_state.contents import Content
    from kafkalite.control.declared_state.shape import Path as ValuePath
    from kafkalite.server.broker import Broker
    from kafkalite.server.settings import Settings

    Where = Callable[[ValuePath, str], str]
    """(path of a value, text of an error) → the text with the position."""

MAX_STATE_BYTES: Final = 64 * 1024 * 1024
MAX_YAML_BYTES: Final = 8 * 1024 * 1024
"""YAML needs 120 times its size in memory."""
_JSON_SUFFIX: Final = ".json"


class StateError(SettingsError):
    """A state that cannot be used; the text is one sentence with the position of the error."""


class LocatedState:
    """A declared state that is read completely, and the positions of its parts."""

    def __init__(
        self, state: State, contents: dict[str, list[Content]], digest: str, where: Where
    ) -> None:
        self.state = state
        self.contents = contents
        """The records by topic."""
        self.digest = digest
        self._where = where
        self.salted: dict[tuple[str, str], tuple[bytes, bytes]] = {}
        """The salt and the salted password by user and mechanism, after the first load."""

    def __repr__(self) -> str:
        return f"LocatedState({self.digest[:12]})"

    @property
    def brokers(self) -> int:
        """The number of nodes that the cluster must have, at least."""
        return self.state.brokers or 1

    @property
    def features(self) -> Mapping[str, int]:
        """The levels of features with which the cluster is formatted."""
        return self.state.features

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics."""
        return tuple(self.state.topics)

    def error(self, path: ValuePath, text: str) -> StateError:
        """Return the error of the value at a path, with its position."""
        return StateError(self._where(path, text))

    async def load(
        self, broker: Broker, topics: str | None = None, groups: str | None = None
    ) -> None:
        """Create what the state declares, or only the topics and groups that match a pattern.

        Raises StateError if the broker refuses a part.
        """
        from kafkalite.control.declared_state.loading import Load  # noqa: PLC0415 - needs handlers

        await Load(self, broker).run(topics, groups)


def with_state(settings: Settings, state: LocatedState) -> Settings:
    """Return the settings of a broker that begins with a state."""
    return settings._replace(state=state, brokers=max(settings.brokers, state.brokers))


def read_state(path: str | PathLike[str]) -> LocatedState:
    """Return the state in a file, YAML or JSON; raises StateError."""
    source = str(path)
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_STATE_BYTES + 1)
        if len(content) > MAX_STATE_BYTES:
            raise StateError(f"{source}: a state has at most {MAX_STATE_BYTES} bytes")
        text = content.decode()
    except OSError as error:
        raise StateError(f"{source}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StateError(f"{source}: no UTF-8 at byte {error.start}") from error
    return parse_state(text, source, str(Path(path).parent))


def parse_state(text: str, source: str = "state", directory: str = ".") -> LocatedState:
    """Return the state in a text, whose files are relative to `directory`; raises StateError.

    Errors name the line and the column.
    """
    if source.endswith(_JSON_SUFFIX):
        return _parse_json(text, source, directory)
    if len(text) > MAX_YAML_BYTES:
        raise StateError(
            f"{source}: a state in YAML has at most {MAX_YAML_BYTES} bytes: write it as JSON "
            f"({_JSON_SUFFIX}), or write records to a file that records_file names"
        )
    try:
        document = PositionedYaml.parse(source, text)
        return state_at(document, document.value, directory)
    except YamlError as error:
        raise StateError(str(error)) from error


def _parse_json(text: str, source: str, directory: str) -> LocatedState:
    """Return the state in a JSON text, which is read as YAML if an error must be located."""
    try:
        value = json.loads(text, object_pairs_hook=unique_members)
    except json.JSONDecodeError as error:
        raise StateError(f"{source}:{error.lineno}:{error.colno}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise StateError(f"{source}: no valid JSON: {error}") from error

    def document() -> PositionedYaml:
        if len(text) > MAX_YAML_BYTES:
            raise YamlError(source, None, "too long")
        return PositionedYaml.parse(source, text)

    return _located(value, directory, _where_in(source, document))


def state_at(document: PositionedYaml, value: object, directory: str) -> LocatedState:
    """Return the state at a part of a document; raises StateError."""
    return _located(value, directory, _where_in(document.source, lambda: document))


def state_of_mapping(mapping: Mapping[str, object]) -> LocatedState:
    """Return the state that a mapping declares, as a file would; raises StateError.

    Files are relative to the working directory.
    """
    if not hasattr(mapping, "items"):
        raise StateError(f"state must be the path of a file or a mapping, not {quote(mapping)}")
    try:
        value = _json_value((), mapping)
    except MisplacedError as error:
        raise StateError(_where_in_mapping(error.path, str(error))) from error
    except RecursionError as error:
        raise StateError("state: a value must not contain itself") from error
    return _located(value, ".", _where_in_mapping)


def _json_value(path: ValuePath, value: object) -> object:
    """Return a value of Python as the JSON of a file has it; raises MisplacedError."""
    if hasattr(value, "items"):
        return {f"{name}": _json_value((*path, f"{name}"), each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value((*path, index), each) for index, each in enumerate(value)]
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise MisplacedError(path, f"{value} needs a time zone, such as datetime.UTC")
        return value.isoformat()
    if value is None or isinstance(value, str | int | float):
        return value
    hint = ": use the fields _hex or _base64 for bytes" if isinstance(value, bytes) else ""
    raise MisplacedError(
        path, f"a value must be text, a number, a list, a mapping or None, not {value!r:.80}{hint}"
    )


def _located(value: object, directory: str, where: Where) -> LocatedState:
    reader = ContentReader(directory)
    try:
        check_json((), value)
        state = state_of({} if value is None else value)
        contents = reader.contents(state)
    except MisplacedError as error:
        raise StateError(where(error.path, str(error))) from error
    return LocatedState(state, contents, _digest(state, reader.files), where)


def _digest(state: State, files: Mapping[str, bytes]) -> str:
    """Return a hash of everything that the state declares."""
    digest = hashlib.sha256(json.dumps(to_json(state), sort_keys=True).encode())
    for name in sorted(files):
        digest.update(hashlib.sha256(name.encode() + b"\0" + files[name]).digest())
    return digest.hexdigest()


def _where_in(source: str, parse: Callable[[], PositionedYaml]) -> Where:
    """Return a function that adds the position to the text about a value."""

    def where(path: ValuePath, text: str) -> str:
        try:
            node = _node_at(parse(), path)
            return str(node.error(_without_lines(node, path, text)))
        except YamlError:
            return f"{source}: {_path_text(path)}{text}"

    return where


def _node_at(document: PositionedYaml, path: ValuePath) -> PositionedYaml:
    found = document
    for step in path:
        if isinstance(step, int):
            elements = found.elements
            inner = elements[step] if step < len(elements) else None
        else:
            inner = found.get(step)
        if inner is None:
            break
        found = inner
    return found


def _without_lines(node: PositionedYaml, path: ValuePath, text: str) -> str:
    """Return a text that names the line of a file with records, if the path has one."""
    if "records_file" in path[:-1]:
        return f"line {path[-1]} of {quote(node.value)}: {text}"
    return text


def _where_in_mapping(path: ValuePath, text: str) -> str:
    return f"state: {_path_text(path)}{text}"


def _path_text(path: ValuePath) -> str:
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return f"{''.join(steps).removeprefix('.')}: " if steps else ""
