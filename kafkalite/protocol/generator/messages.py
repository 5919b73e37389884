"""The source of message classes. One class holds all versions of a message."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final

from kafkalite.protocol.generator.source import HEADER
from kafkalite.protocol.schema import NEW_STRUCT, default_of, is_struct, may_be_none
from kafkalite.protocol.spec import snake_case
from kafkalite.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.protocol.spec import FieldSpec, MessageSpec

_PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "uuid": "Uuid",
    "records": "memoryview | bytes",
}


_WIDTH: Final = 88
"""The longest line of a docstring, without indentation."""


def render_module(specs: Sequence[MessageSpec]) -> str:
    """Write one module with the classes of these messages."""
    classes = [line for spec in specs for line in _message(spec)]
    lines = [
        HEADER,
        f'"""{_message_names(specs)}."""',
        "",
        "from __future__ import annotations",
        "",
    ]
    lines += ["from typing import ClassVar, Final", ""]
    lines.append("from kafkalite.protocol.message import NEW, Message")
    if any(": Uuid" in line or "[Uuid" in line for line in classes):
        lines.append("from kafkalite.protocol.uuids import ZERO_UUID, Uuid")
    lines.append("from kafkalite.protocol.versions import Versions")
    return "\n".join([*lines, *classes, ""])


def _message_names(specs: Sequence[MessageSpec]) -> str:
    return " and ".join(spec.name for spec in specs)


def _message(spec: MessageSpec) -> list[str]:
    kind = spec.kind.capitalize()
    number = "" if spec.key is None else f" {spec.key}"
    flexible = "" if spec.flexible is None else f", flexible versions {spec.flexible}"
    unstable = "" if spec.unstable is None else f", unstable versions {spec.unstable}"
    facts = f"{kind}{number}, versions {spec.versions}{flexible}{unstable}."
    lines = ["", "", *_class(spec, spec.name, [spec.comment, facts], spec.fields)]
    descriptions = {
        field.type: field.about
        for fields in (spec.fields, *(struct.fields for struct in spec.structs.values()))
        for field in reversed(fields)
    }
    for struct in spec.structs.values():
        facts = f"Struct of {spec.name}, versions {struct.versions}."
        paragraphs = [text for text in (descriptions.get(struct.name), facts) if text]
        inner = _class(spec, struct.name, paragraphs, struct.fields)
        lines += ["", *(f"    {line}" if line else "" for line in inner)]
    return lines


def _class(
    spec: MessageSpec, name: str, paragraphs: Sequence[str], fields: Sequence[FieldSpec]
) -> list[str]:
    fields = [field for field in fields if field.versions.overlap(spec.versions)]
    slots = ", ".join(f'"{field.attribute}"' for field in fields)
    lines = [
        f"class {name}(Message):",
        *_docstring(paragraphs),
        "",
        f'    __slots__ = ({slots}{", " if slots else ""}"unknown_tags",)',
    ]
    if name == spec.name:
        lines += _class_facts(spec)
    for field in fields:
        lines += ["", f"    {field.attribute}: {_annotation(spec, field)}"]
        lines += _docstring([field.about or field.name, _field_facts(field)])
    lines += ["", "    def __init__(", "        self,", "        *,"]
    for field in fields:
        default = _parameter_default(field)
        lines.append(f"        {field.attribute}: {_annotation(spec, field)} = {default},")
    lines += ["        unknown_tags: dict[int, bytes] | None = None,", "    ) -> None:"]
    for field in fields:
        lines.append(f"        self.{field.attribute} = {_stored_value(spec, field)}")
    return [*lines, "        self.unknown_tags = unknown_tags"]


def _docstring(paragraphs: Sequence[str]) -> list[str]:
    first, *others = ([*wrap(text, _WIDTH)] for text in paragraphs)
    if not others and len(first) == 1:
        return [f'    """{first[0]}"""']
    lines = [f'    """{first[0]}', *(f"    {line}" for line in first[1:])]
    for paragraph in others:
        lines += ["", *(f"    {line}" for line in paragraph)]
    return [*lines, '    """']


def _field_facts(field: FieldSpec) -> str:
    """Return a text with the versions and special properties of a field."""
    facts = [f"Versions {field.versions}"]
    if field.nullable is not None:
        facts.append(f"None allowed in versions {field.nullable}")
    if field.tag is not None:
        facts.append(f"tag {field.tag} in versions {field.tagged}")
    if field.default is not None:
        facts.append(f"default {'None' if field.default == 'null' else field.default}")
    return ", ".join(facts) + "."


def _class_facts(spec: MessageSpec) -> list[str]:
    lowest, highest = spec.stable.lowest, spec.stable.highest
    lines = [f"    versions: ClassVar[Versions] = Versions({lowest}, {highest})"]
    if spec.key is not None:
        constant = "RECORD_TYPE" if spec.kind in ("key", "value") else "API_KEY"
        lines.append(f"    {constant}: Final = {spec.key}")
    if spec.kind not in ("request", "response"):
        lines.append(f'    CODEC: Final = "{snake_case(spec.name)}"')
    return lines


def _annotation(spec: MessageSpec, field: FieldSpec) -> str:
    if field.type[0].isupper():
        python = f"{spec.name}.{field.type}"
    else:
        python = _PYTHON_TYPES.get(field.type, "int")
    if field.is_array:
        python = f"list[{python}]"
    return f"{python} | None" if may_be_none(field, spec.versions) else python


def _parameter_default(field: FieldSpec) -> str:
    default = default_of(field)
    if is_struct(field) and field.tag is not None:
        # A struct whose tag is absent is None here; in Kafka it is an empty struct.
        return "None"
    if default is NEW_STRUCT or isinstance(default, list):
        return "NEW"
    return "ZERO_UUID" if default is ZERO_UUID else repr(default)


def _stored_value(spec: MessageSpec, field: FieldSpec) -> str:
    name = field.attribute
    if _parameter_default(field) != "NEW":
        return name
    new = f"{spec.name}.{field.type}()" if is_struct(field) else "[]"
    return f"{new} if {name} is NEW else {name}"
