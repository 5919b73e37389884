"""Specs of messages: the notation of the spec files, and their parser.

There is one file for each message. It begins with a comment and the kind of the message, followed
by one line for each field. Fields of a struct are indented by two spaces:

    # Hands a batch of records to the leader of each partition.
    request ProduceRequest
    api-key 0
    versions 3-13
    flexible 9+

    TransactionalId: string(transactionalId) 3+ nullable 3+ = null  # The transactional ID.
    TopicData: []TopicProduceData 0+  # Each topic to produce to.
      Name: string(topicName) 0-12 ignorable  # The topic name.

A field has a name, a type and versions, and then, in this order, the optional parts `nullable V`,
`tag N V`, `flexible V`, `ignorable` and `= default`. A word in brackets after a type is the kind of
entity in the value. Text after two spaces and `# ` describes the field; a test checks that it is
not copied from Kafka's definitions. `struct Name V` begins a struct that several fields use.
"""

from __future__ import annotations

import pkgutil
import re
from dataclasses import dataclass, field
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

KINDS: Final = ("request", "response", "header", "key", "value", "metadata", "data")
_HEADER_WORDS: Final = ("api-key", "record-type", "versions", "unstable", "flexible")
_PACKAGED_SPECS: Final = Path(__file__).parent / "specs"
_CHECKOUT_SPECS: Final = Path(__file__).parents[2] / "protocol-specs"

_FIELD: Final = re.compile(
    r"(?P<indent> *)(?P<name>\w+): (?P<array>\[\])?(?P<type>\w+)(?:\((?P<entity>\w+)\))?"
    r" (?P<versions>[\d+-]+)(?: nullable (?P<nullable>[\d+-]+))?"
    r"(?: tag (?P<tag>\d+) (?P<tagged>[\d+-]+))?(?: flexible (?P<flexible>[\d+-]+|none))?"
    r"(?P<ignorable> ignorable)?(?: = (?P<default>\S+))?(?:  # (?P<about>.+))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    """One field of a struct: its type, and the versions of each of its properties."""

    name: str
    type: str
    is_array: bool
    versions: Versions
    entity: str | None = None
    nullable: Versions | None = None
    tag: int | None = None
    tagged: Versions | None = None
    flexible: Versions | None = None
    never_flexible: bool = False
    ignorable: bool = False
    default: str | None = None
    about: str = ""

    @property
    def attribute(self) -> str:
        """The field's name in messages: Kafka's name in snake case, with "_" after a keyword."""
        name = snake_case(self.name)
        return f"{name}_" if iskeyword(name) else name


@dataclass(frozen=True, slots=True)
class StructSpec:
    """A named list of fields, used by one field or several."""

    name: str
    versions: Versions
    fields: tuple[FieldSpec, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSpec:
    """One message in all its versions; `structs` has every nested struct, by name."""

    comment: str
    kind: str
    name: str
    key: int | None
    versions: Versions
    unstable: Versions | None
    flexible: Versions | None
    fields: tuple[FieldSpec, ...]
    structs: Mapping[str, StructSpec]

    @property
    def stable(self) -> Versions:
        """The versions without those that Kafka calls unstable."""
        if self.unstable is None:
            return self.versions
        return Versions(self.versions.lowest, self.unstable.lowest - 1)

    @property
    def stem(self) -> str:
        """The message's name without its kind, in snake case, as in module names."""
        for suffix in ("Request", "Response", "Key", "Value", "Record", "Message"):
            if self.name.endswith(suffix):
                return snake_case(self.name.removesuffix(suffix))
        return snake_case(self.name)

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields."""
        return self.flexible is not None and version in self.flexible


def snake_case(name: str) -> str:
    """Convert Kafka's camel case to snake case; runs of capitals stay together."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


@dataclass(slots=True)
class _Reader:
    """Parses the lines of one file."""

    lines: Sequence[str]
    header: dict[str, str] = field(default_factory=dict)
    structs: dict[str, StructSpec] = field(default_factory=dict)

    def read(self) -> MessageSpec:
        comment = " ".join(line[2:] for line in self.lines if line.startswith("# "))
        body = [line for line in self.lines if line.strip() and not line.startswith("#")]
        fields, rest = self._fields([line for line in body if not self._is_header(line)], 0)
        while rest:
            word, name, versions = rest[0].split(" ")
            if word != "struct":
                raise ValueError(f"neither a field nor a struct: {rest[0]!r}")
            inner, rest = self._fields(rest[1:], 2)
            self._add_struct(StructSpec(name, Versions.parse(versions), inner))
        kind, name = next((kind, self.header[kind]) for kind in KINDS if kind in self.header)
        number = self.header.get("api-key", self.header.get("record-type"))
        return MessageSpec(
            comment=comment,
            kind=kind,
            name=name,
            key=int(number) if number is not None else None,
            versions=Versions.parse(self.header["versions"]),
            unstable=_versions(self.header.get("unstable")),
            flexible=_versions(self.header.get("flexible")),
            fields=fields,
            structs=self.structs,
        )

    def _is_header(self, line: str) -> bool:
        word, _, value = line.partition(" ")
        if word not in (*KINDS, *_HEADER_WORDS):
            return False
        self.header[word] = value
        return True

    def _fields(
        self, lines: Sequence[str], indent: int
    ) -> tuple[tuple[FieldSpec, ...], Sequence[str]]:
        """Parse the fields at one indentation; return them and the remaining lines."""
        fields: list[FieldSpec] = []
        while lines:
            match = _FIELD.fullmatch(lines[0])
            if match is None or len(match["indent"]) < indent:
                break
            if len(match["indent"]) > indent:
                raise ValueError(f"indented too far: {lines[0]!r}")
            spec = _field(match)
            fields.append(spec)
            inner, lines = self._fields(lines[1:], indent + 2)
            if inner:
                self._add_struct(StructSpec(spec.type, spec.versions, inner))
        return tuple(fields), lines

    def _add_struct(self, struct: StructSpec) -> None:
        if struct.name in self.structs:
            raise ValueError(f"struct {struct.name} is defined twice")
        self.structs[struct.name] = struct


def _versions(text: str | None) -> Versions | None:
    return None if text in (None, "none") else Versions.parse(text)


def _field(match: re.Match[str]) -> FieldSpec:
    return FieldSpec(
        name=match["name"],
        type=match["type"],
        is_array=match["array"] is not None,
        versions=Versions.parse(match["versions"]),
        entity=match["entity"],
        nullable=_versions(match["nullable"]),
        tag=None if match["tag"] is None else int(match["tag"]),
        tagged=_versions(match["tagged"]),
        flexible=_versions(match["flexible"]),
        never_flexible=match["flexible"] == "none",
        ignorable=match["ignorable"] is not None,
        default=match["default"],
        about=match["about"] or "",
    )


def parse_spec(text: str) -> MessageSpec:
    """Parse the text of one spec file; raises ValueError for invalid notation."""
    return _Reader(text.splitlines()).read()


def spec_directory() -> Path:
    """Return the directory of all specs: in the wheel or in the checkout."""
    return _PACKAGED_SPECS if _PACKAGED_SPECS.is_dir() else _CHECKOUT_SPECS


def load_spec(folder: str, name: str) -> MessageSpec:
    """Parse one spec file, such as `produce_request` in `apis`."""
    directory = spec_directory()
    if directory.is_dir():
        return parse_spec((directory / folder / f"{name}.ksp").read_text(encoding="utf-8"))
    # In a zip file there are no directories; Spark's executors import this package from one.
    packaged = pkgutil.get_data("kafkalite.protocol", f"specs/{folder}/{name}.ksp")
    if packaged is None:
        raise FileNotFoundError(f"{folder}/{name}.ksp")
    return parse_spec(packaged.decode("utf-8"))


def load_specs(directory: Path | None = None) -> Iterator[MessageSpec]:
    """Parse every spec file, in the order of their paths."""
    for path in sorted((directory or spec_directory()).glob("*/*.ksp")):
        try:
            yield parse_spec(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path.name}: {error}") from error
