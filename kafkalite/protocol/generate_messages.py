"""MessageSpec → the source of the classes that hold messages, all versions in one shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.schema import FRESH, default_of, is_struct, nullable_somewhere
from kafkalite.protocol.source import BANNER
from kafkalite.protocol.spec import snake_case

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.protocol.spec import FieldSpec, MessageSpec

_PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "uuid": "bytes",
    "records": "memoryview | bytes",
}


def render_module(specs: Sequence[MessageSpec]) -> str:
    """Write one module with the classes of these messages."""
    return "\n".join(
        [
            BANNER,
            "",
            "from __future__ import annotations",
            "",
            "from typing import ClassVar, Final",
            "",
            "from kafkalite.protocol.message import NEW, Message",
            "from kafkalite.protocol.versions import Versions",
            *(line for spec in specs for line in _message(spec)),
            "",
        ]
    )


def _message(spec: MessageSpec) -> list[str]:
    lines = ["", "", *_class(spec, spec.name, spec.comment, spec.fields)]
    for struct in spec.structs.values():
        comment = f"{struct.name} in {spec.name}."
        inner = _class(spec, struct.name, comment, struct.fields)
        lines += ["", *(f"    {line}" if line else "" for line in inner)]
    return lines


def _class(spec: MessageSpec, name: str, comment: str, fields: Sequence[FieldSpec]) -> list[str]:
    fields = [field for field in fields if field.versions.overlap(spec.versions)]
    slots = ", ".join(f'"{field.attribute}"' for field in fields)
    lines = [
        f"class {name}(Message):",
        f'    """{comment}"""',
        "",
        f'    __slots__ = ({slots}{", " if slots else ""}"unknown_tags",)',
    ]
    if name == spec.name:
        lines += _class_facts(spec)
    lines += ["", "    def __init__(", "        self,", "        *,"]
    for field in fields:
        default = _parameter_default(field)
        lines.append(f"        {field.attribute}: {_annotation(spec, field)} = {default},")
    lines += ["        unknown_tags: dict[int, bytes] | None = None,", "    ) -> None:"]
    for field in fields:
        lines.append(f"        self.{field.attribute} = {_stored(spec, field)}")
    return [*lines, "        self.unknown_tags = unknown_tags"]


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
    return f"{python} | None" if nullable_somewhere(field, spec.versions) else python


def _parameter_default(field: FieldSpec) -> str:
    default = default_of(field)
    if is_struct(field) and field.tag is not None:
        # What one means by leaving it out is that there is none, even where Kafka would
        # take an absent tag for an empty struct.
        return "None"
    return "NEW" if default is FRESH or isinstance(default, list) else repr(default)


def _stored(spec: MessageSpec, field: FieldSpec) -> str:
    name = field.attribute
    if _parameter_default(field) != "NEW":
        return name
    new = f"{spec.name}.{field.type}()" if is_struct(field) else "[]"
    return f"{new} if {name} is NEW else {name}"
