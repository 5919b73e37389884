"""Construct tree → the source of `build(o, out)`, which appends a message's bytes to a list.

All bytes between two loops are added to `out` at once, as one tuple of byte strings. Adjacent
fields of fixed size are packed together, short lengths are looked up in a table, and an empty tag
section is one byte. A struct is packed in one call if all its strings are empty and its arrays have
few numbers; the format for each combination of lengths is cached.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafkalite.protocol.codec_helpers import encode_varint
from kafkalite.protocol.generator.parsers import length_code
from kafkalite.protocol.generator.source import Block, SourceModule, fixed_code, size_of
from kafkalite.protocol.primitives import (
    KafkaArray,
    KafkaBytes,
    KafkaString,
    KafkaStruct,
    MessageClass,
    Tagged,
)

if TYPE_CHECKING:
    from construct import Construct

    from kafkalite.protocol.primitives import StructShape

_MAX_EMPTY_STRINGS: Final = 2
"""In structs with more strings than this, it is rare that all strings are empty."""

_NUMBER_CODES: Final = ("b", "h", "i", "q")
"""Struct codes of numbers whose short arrays are packed in the same call as their struct."""


@dataclass(slots=True)
class _OneCallRow:
    """The parts of a call that packs a whole struct, and the conditions for this call."""

    prelude: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)


class BuildCompiler:
    """Writes one build function."""

    def __init__(self, module: SourceModule, out: str = "out") -> None:
        self._module = module
        self._out = out
        self._block = Block()
        self._packed: list[tuple[str, str]] = []
        self._parts: list[str] = []
        self._name_count = 0

    def compile(self, name: str, tree: KafkaStruct) -> None:
        """Define `name(o, out)` in the module."""
        self._message(tree.shape)
        if not self._block.lines:
            self._block.add("pass")
        self._module.function(name, "o, out", self._block)

    def _message(self, shape: StructShape) -> None:
        one_call_row = self._one_call_row(shape, "o", max_strings=0)
        if one_call_row is not None and one_call_row.conditions:
            self._fast_path(one_call_row)
        self._struct("o", shape)
        self._flush_parts()
        if one_call_row is not None and one_call_row.conditions:
            self._block.dedent()

    # -- adjacent fields ------------------------------------------------------------------

    def _new_name(self, prefix: str) -> str:
        self._name_count += 1
        return f"{prefix}{self._name_count}"

    def _add_packed(self, expression: str, code: str) -> None:
        self._packed.append((expression, code))

    def _flush_packed(self) -> None:
        packed, self._packed = self._packed, []
        if packed:
            packer = self._module.packer([code for _, code in packed])
            self._parts.append(f"{packer}({', '.join(expression for expression, _ in packed)})")

    def _add_part(self, expression: str) -> None:
        self._flush_packed()
        self._parts.append(expression)

    def _flush_parts(self) -> None:
        self._flush_packed()
        parts, self._parts = self._parts, []
        if len(parts) == 1:
            self._block.add(f"{self._out}.append({parts[0]})")
        elif parts:
            self._block.add(f"{self._out} += ({', '.join(parts)})")

    # -- structs --------------------------------------------------------------------------

    def _struct(self, source: str, shape: StructShape) -> None:
        for member in shape.fields:
            self._field(f"{source}.{member.name}", member.subcon)
        if shape.flexible:
            tags = self._tag_function(shape)
            self._add_part(f"(b'\\0' if {self._no_tags(source, shape)} else {tags}({source}))")

    def _no_tags(self, source: str, shape: StructShape) -> str:
        conditions = [f"not {source}.unknown_tags"]
        conditions += [self._is_default(source, tagged) for tagged in shape.tagged.values()]
        return " and ".join(conditions)

    def _is_default(self, source: str, tagged: Tagged) -> str:
        attribute = f"{source}.{tagged.attribute}"
        if tagged.default is None:
            return f"{attribute} is None"
        if isinstance(tagged.default, MessageClass):
            return f"{attribute} == {self._module.message_class(tagged.default)}()"
        if tagged.default in ([], "", b"") and not tagged.subcon.nullable:
            return f"not {attribute}"
        return f"{attribute} == {tagged.default!r}"

    def _field(self, source: str, node: Construct) -> None:
        code = fixed_code(node)
        if code is not None:
            self._add_packed(source, code)
        elif isinstance(node, KafkaStruct):
            self._nested(source, node)
        elif isinstance(node, KafkaArray):
            self._array(source, node)
        else:
            self._length_prefixed(source, node)

    def _nested(self, source: str, node: KafkaStruct) -> None:
        name = self._new_name("o")
        self._block.add(f"{name} = {source}")
        if not node.shape.nullable:
            self._struct(name, node.shape)
            return
        self._flush_parts()
        self._block.indent(f"if {name} is None:")
        null = "\\0" if node.shape.is_tagged else "\\xff"
        self._block.add(f"{self._out}.append(b'{null}')")
        self._block.dedent()
        self._block.indent("else:")
        self._add_packed("1", "b")
        self._struct(name, node.shape)
        self._flush_parts()
        self._block.dedent()

    # -- lengths --------------------------------------------------------------------------

    def _length(self, name: str, node: Construct) -> None:
        """Write the length in the variable `name`, which is length + 1 for a compact type."""
        if not node.compact:
            self._add_packed(name, length_code(node))
            return
        is_string = isinstance(node, KafkaString)
        long = self._module.helper("encode_string_length" if is_string else "encode_varint")
        short, table = self._module.helper("SHORT"), self._module.helper("VARINTS")
        self._add_part(f"({table}[{name}] if {name} < {short} else {long}({name}))")

    def _length_prefixed(self, source: str, node: KafkaString | KafkaBytes) -> None:
        value, length = self._new_name("s"), self._new_name("n")
        encode = ".encode()" if isinstance(node, KafkaString) else ""
        plus = " + 1" if node.compact else ""
        if node.nullable:
            self._block.add(f"{value} = {source}")
            self._block.indent(f"if {value} is None:")
            self._block.add(f"{value} = b''")
            self._block.add(f"{length} = {0 if node.compact else -1}")
            self._block.dedent()
            self._block.indent("else:")
            if encode:
                self._block.add(f"{value} = {value}{encode}")
            self._block.add(f"{length} = len({value}){plus}")
            self._block.dedent()
        else:
            self._block.add(f"{value} = {source}{encode}")
            self._block.add(f"{length} = len({value}){plus}")
        self._length(length, node)
        self._add_part(value)

    # -- arrays ---------------------------------------------------------------------------

    def _array(self, source: str, node: KafkaArray) -> None:
        rows, length = self._new_name("l"), self._new_name("n")
        self._block.add(f"{rows} = {source}")
        plus = " + 1" if node.compact else ""
        if node.nullable:
            null = 0 if node.compact else -1
            self._block.add(f"{length} = {null} if {rows} is None else len({rows}){plus}")
        else:
            self._block.add(f"{length} = len({rows}){plus}")
        self._length(length, node)
        code = fixed_code(node.subcon)
        if code == "16s":
            self._add_part(f"b''.join({rows})" if not node.nullable else f"b''.join({rows} or ())")
            return
        if code is not None:
            pack = self._module.helper("pack_numbers")
            self._add_part(
                f'{pack}("{code}", {rows})'
                if not node.nullable
                else f'{pack}("{code}", {rows} or ())'
            )
            return
        self._flush_parts()
        if node.nullable:
            self._block.indent(f"if {rows}:")
        self._rows(rows, node.subcon)
        if node.nullable:
            self._block.dedent()

    def _each(self, rows: str) -> str:
        """Return the expression for the elements of a list in an iteration."""
        if not self._module.has_hooks:
            return rows
        return f"{rows} if each is None else each({rows}, {self._out})"

    def _rows(self, rows: str, node: Construct) -> None:
        item = self._new_name("o")
        if not isinstance(node, KafkaStruct):
            self._block.indent(f"for {item} in {self._each(rows)}:")
            self._length_prefixed(item, node)
            self._flush_parts()
            self._block.dedent()
            return
        one_call_row = self._one_call_row(node.shape, item)
        if one_call_row is not None and not one_call_row.conditions and not one_call_row.counts:
            call = self._packing_call(one_call_row)
            elements = f"({self._each(rows)})" if self._module.has_hooks else rows
            self._block.add(f"{self._out} += [{call} for {item} in {elements}]")
            return
        self._block.indent(f"for {item} in {self._each(rows)}:")
        if one_call_row is not None:
            self._fast_path(one_call_row)
        self._struct(item, node.shape)
        self._flush_parts()
        if one_call_row is not None:
            self._block.dedent()
        self._block.dedent()

    # -- structs in one call ---------------------------------------------------------------

    def _one_call_row(
        self, shape: StructShape, source: str, max_strings: int = _MAX_EMPTY_STRINGS
    ) -> _OneCallRow | None:
        """Return the parts of a call that packs a struct; None if its fields do not allow that."""
        row = _OneCallRow()
        strings = 0
        for member in shape.fields:
            value = f"{source}.{member.name}"
            code = fixed_code(member.subcon)
            if code is not None:
                row.codes.append(code)
                row.values.append(value)
            elif isinstance(member.subcon, KafkaString):
                strings += 1
                row.conditions.append(f"{value} == ''")
                row.codes.append(length_code(member.subcon))
                row.values.append("1" if member.subcon.compact else "0")
            elif not self._add_numbers(row, value, member.subcon):
                return None
        if strings > max_strings or not any(fixed_code(f.subcon) for f in shape.fields):
            return None
        if shape.flexible:
            row.conditions.append(self._no_tags(source, shape))
            row.codes.append("B")
            row.values.append("0")
        return row

    def _add_numbers(self, row: _OneCallRow, value: str, node: Construct) -> bool:
        """Add an array of numbers to a row; return False for any other field."""
        if not isinstance(node, KafkaArray) or node.nullable:
            return False
        code = fixed_code(node.subcon)
        if code not in _NUMBER_CODES:
            return False
        name, count = self._new_name("l"), self._new_name("n")
        row.prelude += [f"{name} = {value}", f"{count} = len({name})"]
        row.conditions.append(f"{count} < 127")
        row.counts.append(count)
        row.codes += [length_code(node), f"%d{code}"]
        row.values += [f"{count} + 1" if node.compact else count, f"*{name}"]
        return True

    def _packing_call(self, row: _OneCallRow) -> str:
        """Return the source of the call that packs a row."""
        if row.counts:
            cached = self._module.helper("row_packer")
            packer = f'{cached}("{"".join(row.codes)}", {", ".join(row.counts)})'
        else:
            packer = self._module.packer(row.codes)
        return f"{packer}({', '.join(row.values)})"

    def _fast_path(self, row: _OneCallRow) -> None:
        """Write the branch of the packing call, and open the branch for all other rows.

        The caller closes the second branch.
        """
        for line in row.prelude:
            self._block.add(line)
        self._block.indent(f"if {' and '.join(row.conditions)}:")
        self._block.add(f"{self._out}.append({self._packing_call(row)})")
        self._block.dedent()
        self._block.indent("else:")

    # -- tags -----------------------------------------------------------------------------

    def _tag_function(self, shape: StructShape) -> str:
        """Return the name of the function that writes a non-empty tag section."""
        if not shape.tagged:
            return self._module.helper("encode_unknown_tags")
        if None not in (fixed_code(tagged.subcon) for tagged in shape.tagged.values()):
            return self._fixed_tag_function(shape)
        inner = BuildCompiler(self._module, out="b")
        block = inner._block
        join = self._module.helper("encode_tag_section")
        block.add("t = []")
        for tag, tagged in shape.tagged.items():
            block.indent(f"if not ({self._is_default('o', tagged)}):")
            block.add("b = []")
            inner._field(f"o.{tagged.attribute}", tagged.subcon)
            inner._flush_parts()
            block.add(f"t.append(({tag}, b''.join(b)))")
            block.dedent()
        block.add(f"return {join}(t, o.unknown_tags)")
        return self._module.shared_function("tags", "o", block)

    def _fixed_tag_function(self, shape: StructShape) -> str:
        """Return the name of the same function for tagged fields of fixed sizes."""
        block = Block()
        block.add("n = 0")
        block.add("t = b''")
        for tag, tagged in sorted(shape.tagged.items(), key=lambda each: each[0]):
            code = fixed_code(tagged.subcon)
            assert code is not None, "the caller has checked the fields"
            header = encode_varint(tag) + encode_varint(size_of([code]))
            packer = self._module.packer([code])
            block.indent(f"if not ({self._is_default('o', tagged)}):")
            block.add("n += 1")
            block.add(f"t += {header!r} + {packer}(o.{tagged.attribute})")
            block.dedent()
        block.indent("if o.unknown_tags:")
        block.add(f"return {self._module.helper('add_unknown_tags')}(t, o.unknown_tags)")
        block.dedent()
        block.add(f"return {self._module.helper('VARINTS')}[n] + t")
        return self._module.shared_function("tags", "o", block)
