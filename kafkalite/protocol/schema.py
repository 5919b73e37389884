"""Construct trees of messages, one per version, built from their specs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.protocol.primitives import (
    FIXED,
    KafkaArray,
    KafkaBytes,
    KafkaString,
    KafkaStruct,
    MessageClass,
    StructShape,
    Tagged,
)
from kafkalite.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from construct import Construct

    from kafkalite.protocol.spec import FieldSpec, MessageSpec
    from kafkalite.protocol.versions import Versions

NEW_STRUCT: Final = object()
"""Stands for a default that is a new struct of the field's own type."""


def module_of(spec: MessageSpec) -> str:
    """Return the name of the module with a message's classes."""
    if spec.kind == "header":
        return "kafkalite.protocol._generated.messages.headers"
    folder = "messages" if spec.kind in ("request", "response") else "records"
    return f"kafkalite.protocol._generated.{folder}.{spec.stem}"


def is_struct(field: FieldSpec) -> bool:
    """Whether the field contains one struct, not an array of structs."""
    return not field.is_array and field.type[0].isupper()


def may_be_none(field: FieldSpec, versions: Versions) -> bool:
    """Whether the field may be None in messages, in any of `versions` or as its default."""
    if field.default == "null" or (is_struct(field) and field.tag is not None):
        return True
    return field.nullable is not None and field.nullable.overlap(versions) is not None


def default_of(field: FieldSpec) -> object:
    """Return a field's default value; NEW_STRUCT and [] are created for each message."""
    if field.default == "null":
        return None
    if field.is_array:
        return []
    if is_struct(field):
        # The default of a tagged struct is None here. In Kafka it is an empty struct, and each
        # struct is compared with it, which would take longer than the rest of the message. A
        # nullable struct cannot use None, because null is one of its values.
        return None if field.tag is not None and field.nullable is None else NEW_STRUCT
    return _scalar_default(field)


def _scalar_default(field: FieldSpec) -> object:
    match field.type:
        case "bool":
            return field.default == "true"
        case "string":
            return field.default or ""
        case "bytes" | "records":
            return b""
        case "uuid":
            return ZERO_UUID
        case "float64":
            return float(field.default or 0)
        case _:
            return int(field.default or "0", 0)


class SchemaBuilder:
    """Builds the tree of one message in one version."""

    def __init__(self, spec: MessageSpec, version: int) -> None:
        if version not in spec.versions:
            raise ValueError(f"{spec.name} has no version {version}")
        self._spec = spec
        self._version = version
        self._flexible = spec.is_flexible(version)

    def message(self) -> KafkaStruct:
        """Build the tree of the whole message."""
        message = MessageClass(module_of(self._spec), self._spec.name)
        return self._struct(message, self._spec.fields, nullable=False)

    def _struct(
        self, message: MessageClass, fields: tuple[FieldSpec, ...], *, nullable: bool
    ) -> KafkaStruct:
        shape = StructShape(
            message=message,
            flexible=self._flexible,
            nullable=nullable,
        )
        for field in fields:
            if field.versions.overlap(self._spec.versions) is None:
                continue
            if self._version not in field.versions:
                shape.absent[field.attribute] = self._default(field)
            elif field.tagged is not None and self._version in field.tagged:
                assert field.tag is not None
                subcon = self._field(field)
                if isinstance(subcon, KafkaStruct):
                    subcon.shape.is_tagged = True
                shape.tagged[field.tag] = Tagged(field.attribute, subcon, self._default(field))
            else:
                shape.fields.append(field.attribute / self._field(field))
        return KafkaStruct(shape)

    def _default(self, field: FieldSpec) -> object:
        default = default_of(field)
        return self._class(field.type) if default is NEW_STRUCT else default

    def _class(self, struct: str) -> MessageClass:
        return MessageClass(module_of(self._spec), f"{self._spec.name}.{struct}")

    def _field(self, field: FieldSpec) -> Construct:
        nullable = field.nullable is not None and self._version in field.nullable
        compact = self._flexible
        if field.never_flexible or (
            field.flexible is not None and self._version not in field.flexible
        ):
            compact = False
        if not field.is_array:
            return self._single(field.type, compact=compact, nullable=nullable)
        element = self._single(field.type, compact=compact, nullable=False)
        return KafkaArray(element, compact=compact, nullable=nullable)

    def _single(self, type_name: str, *, compact: bool, nullable: bool) -> Construct:
        if type_name in FIXED:
            return FIXED[type_name]
        if type_name == "string":
            return KafkaString(compact=compact, nullable=nullable)
        if type_name in ("bytes", "records"):
            is_records = type_name == "records"
            return KafkaBytes(compact=compact, nullable=nullable, is_records=is_records)
        struct = self._spec.structs[type_name]
        return self._struct(self._class(type_name), struct.fields, nullable=nullable)


def message_tree(spec: MessageSpec, version: int) -> KafkaStruct:
    """Build the Construct tree of one version; raises ValueError if it does not exist."""
    return SchemaBuilder(spec, version).message()
