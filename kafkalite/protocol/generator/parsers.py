"""Construct tree → the source of `parse(buf, pos, end) -> (message, pos)`.

Measured optimisations:

- Adjacent fields of fixed size are unpacked together with the first byte of the length after them.
- Varints are read inline.
- Instances are created without `__init__`, and their slots are set directly.
- An empty tag section needs one comparison of a byte.
- `unpack_from` and indexing check bounds. One comparison with `end` detects truncated slices.
- An array whose rows have empty strings and no tags is unpacked at once, because its rows have one
  size. To test this, `bytes.count` counts the zero lengths in each column of length bytes. Only
  other arrays need the slow loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.protocol.generator.source import Block, SourceModule, fixed_code, size_of
from kafkalite.protocol.primitives import (
    KafkaArray,
    KafkaBytes,
    KafkaString,
    KafkaStruct,
    MessageClass,
)

if TYPE_CHECKING:
    from construct import Construct

    from kafkalite.protocol.primitives import StructShape

_MIN_VIEWED_BYTES: Final = 64 * 1024
_MAX_TESTED_COLUMNS: Final = 4
"""Maximum number of columns that are tested; more tests would take longer than they save."""


def min_size(subcon: Construct) -> int:
    """Return the minimum number of bytes of a construct."""
    code = fixed_code(subcon)
    if code is not None:
        return size_of([code])
    if isinstance(subcon, KafkaStruct):
        if subcon.shape.nullable:
            return 1
        return sum(min_size(field.subcon) for field in subcon.shape.fields) + int(
            subcon.shape.flexible
        )
    return 1 if subcon.compact else size_of([length_code(subcon)])


def length_code(subcon: Construct) -> str:
    """Return the struct code of a length; of its first byte if it is a varint."""
    if subcon.compact:
        return "B"
    return "h" if isinstance(subcon, KafkaString) else "i"


class ParseCompiler:
    """Writes one parse function."""

    def __init__(self, module: SourceModule, end: str = "end") -> None:
        self._module = module
        self._end = end
        self._block = Block()
        self._pending: list[tuple[str, str]] = []
        self._depth = 0

    def compile(self, name: str, tree: KafkaStruct) -> None:
        """Define `name(buf, pos, end)` in the module."""
        target = self._struct(tree)
        self._flush()
        self._block.indent("if pos > end:")
        self._block.add(f"{self._module.helper('refuse_truncation')}()")
        self._block.dedent()
        self._block.add(f"return {target}, pos")
        self._module.function(name, "buf, pos, end", self._block)

    # -- adjacent fields------------------------------------------------------------------

    def _read(self, target: str, code: str) -> None:
        self._pending.append((target, code))

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        if not pending:
            return
        targets = ", ".join(target for target, _ in pending)
        codes = [code for _, code in pending]
        if codes == ["B"]:
            self._block.add(f"{targets} = buf[pos]")
        elif codes == ["?"]:
            self._block.add(f"{targets} = buf[pos] != 0")
        else:
            comma = "," if len(pending) == 1 else ""
            self._block.add(f"{targets}{comma} = {self._module.unpacker(codes)}(buf, pos)")
        self._block.add(f"pos += {size_of(codes)}")

    def _rest_of_varint(self, name: str, helper: str = "rest_of_varint") -> None:
        rest = self._module.helper(helper)
        self._block.indent(f"if {name} > 127:")
        self._block.add(f"{name}, pos = {rest}(buf, pos, {name})")
        self._block.dedent()

    # -- structs ------------------------------------------------------------------------

    def _new(self, shape: StructShape) -> str:
        target = f"o{self._depth}"
        self._depth += 1
        self._block.add(f"{target} = new({self._module.message_class(shape.message)})")
        self._defaults(target, shape)
        return target

    def _defaults(self, target: str, shape: StructShape) -> None:
        for attribute, default in shape.absent.items():
            self._block.add(f"{target}.{attribute} = {self._default(default)}")
        for tagged in shape.tagged.values():
            self._block.add(f"{target}.{tagged.attribute} = {self._default(tagged.default)}")
        self._block.add(f"{target}.unknown_tags = None")

    def _default(self, default: object) -> str:
        if isinstance(default, MessageClass):
            return f"{self._module.message_class(default)}()"
        return repr(default)

    def _struct(self, node: KafkaStruct) -> str:
        shape = node.shape
        target = self._new(shape)
        for field in shape.fields:
            self._field(f"{target}.{field.name}", field.subcon)
        if shape.flexible:
            self._read("n", "B")
            self._flush()
            tags = self._tag_function(shape)
            self._block.indent("if n:")
            self._block.add(f"pos = {tags}(buf, pos, {self._end}, n, {target})")
            self._block.dedent()
        self._depth -= 1
        return target

    def _field(self, target: str, node: Construct) -> None:
        code = fixed_code(node)
        if code is not None:
            self._read(target, code)
        elif isinstance(node, KafkaStruct):
            self._nested(target, node)
        elif isinstance(node, KafkaArray):
            self._array(target, node)
        else:
            self._length_prefixed(target, node)

    def _nested(self, target: str, node: KafkaStruct) -> None:
        if not node.shape.nullable:
            # Adjacent fields of fixed size are unpacked together, also across the ends of a struct.
            inner = self._struct(node)
            self._block.add(f"{target} = {inner}")
            return
        self._read("n", "B" if node.shape.is_tagged else "b")
        self._flush()
        if node.shape.is_tagged:
            self._rest_of_varint("n")
        self._block.indent("if not n:" if node.shape.is_tagged else "if n < 0:")
        self._block.add(f"{target} = None")
        self._block.dedent()
        self._block.indent("else:")
        inner = self._struct(node)
        self._flush()
        self._block.add(f"{target} = {inner}")
        self._block.dedent()

    # -- strings and bytes ----------------------------------------------------------------

    def _length(self, node: Construct) -> None:
        """Read a length into `n`, and open a branch for a value.

        For a compact type, `n` is length + 1.
        """
        self._read("n", length_code(node))
        self._flush()
        if node.compact:
            is_string = isinstance(node, KafkaString)
            rest = self._module.helper("rest_of_string_length" if is_string else "rest_of_varint")
            self._block.indent("if n > 127:")
            self._block.add(f"n, pos = {rest}(buf, pos, n)")
            self._block.dedent()
        self._block.indent("if n:" if node.compact else "if n >= 0:")

    def _close_length_branch(self, target: str, node: Construct) -> None:
        """Close the branch that `_length` opened, for null and invalid lengths."""
        refusal = f"{self._module.helper('refuse_null')}()"
        self._block.dedent()
        if not node.nullable:
            self._block.indent("else:")
            self._block.add(refusal)
            self._block.dedent()
            return
        self._block.indent("else:" if node.compact else "elif n == -1:")
        self._block.add(f"{target} = None")
        self._block.dedent()
        if not node.compact:
            self._block.indent("else:")
            self._block.add(refusal)
            self._block.dedent()

    def _length_prefixed(self, target: str, node: KafkaString | KafkaBytes) -> None:
        self._length(node)
        self._block.add(f"q = pos + n{' - 1' if node.compact else ''}")
        self._block.add(f"{target} = {self._slice(node)}")
        self._block.add("pos = q")
        self._close_length_branch(target, node)

    def _slice(self, node: KafkaString | KafkaBytes) -> str:
        if isinstance(node, KafkaString):
            return "buf[pos:q].decode()"
        return "memoryview(buf)[pos:q]" if node.is_records else self._copy("q")

    def _copy(self, end: str) -> str:
        """Return the expression for a copy of the bytes up to `end`."""
        copy = f"bytes(buf[pos:{end}])"
        if not self._module.has_hooks:
            return copy
        # A slice of the buffer would be copied twice. For few bytes, a view takes longer.
        return f"{copy} if n < {_MIN_VIEWED_BYTES} else bytes(memoryview(buf)[pos:{end}])"

    # -- arrays ---------------------------------------------------------------------------

    def _array(self, target: str, node: KafkaArray) -> None:
        self._length(node)
        if node.compact:
            self._block.add("n -= 1")
        size = min_size(node.subcon)
        total = f"n * {size}" if size > 1 else "n"
        self._block.indent(f"if {total} > {self._end} - pos:")
        self._block.add(f"{self._module.helper('refuse_length')}()")
        self._block.dedent()
        code = fixed_code(node.subcon)
        if code is not None:
            self._fixed_array(target, code)
        elif isinstance(node.subcon, KafkaStruct):
            self._rows(target, node.subcon)
        else:
            rows = self._open_rows(target)
            self._length_prefixed("s", node.subcon)
            self._block.add(f"{rows}.append(s)")
            self._block.dedent()
        self._close_length_branch(target, node)

    def _fixed_array(self, target: str, code: str) -> None:
        if code == "16s":
            self._block.add(f"{target} = {self._module.helper('read_uuids')}(buf, pos, n)")
        else:
            read_numbers = self._module.helper("read_numbers")
            field = f', "{target.partition(".")[2]}"' if self._module.has_hooks else ""
            self._block.add(f'{target} = {read_numbers}("{code}", buf, pos, n{field})')
        self._block.add(f"pos += n * {size_of([code])}")

    def _open_rows(self, target: str) -> str:
        rows = f"l{self._depth}"
        self._block.add(f"{rows} = {target} = {self._new_list(target)}")
        self._block.indent(f"for _ in {'rows' if self._module.has_hooks else 'range'}(n):")
        return rows

    def _new_list(self, target: str) -> str:
        if not self._module.has_hooks:
            return "[]"
        return f'[] if new_list is None else new_list("{target.partition(".")[2]}", n)'

    def _rows(self, target: str, node: KafkaStruct) -> None:
        fixed_size_row = self._fixed_size_row(node.shape)
        if fixed_size_row is not None:
            self._parse_rows_at_once(target, node.shape, *fixed_size_row)
        if fixed_size_row is None or fixed_size_row[1]:
            rows = self._open_rows(target)
            inner = self._struct(node)
            self._flush()
            self._block.add(f"{rows}.append({inner})")
            self._block.dedent()
        if fixed_size_row is not None and fixed_size_row[1]:
            self._block.dedent()

    def _fixed_size_row(self, shape: StructShape) -> tuple[list[str], list[tuple[int, int]]] | None:
        """Return the codes of a row with empty strings, and the columns that must be empty.

        A column is (offset, byte). Returns None if rows have fields that are neither of fixed size
        nor strings, or too many columns.
        """
        codes: list[str] = []
        columns: list[tuple[int, int]] = []
        for field in shape.fields:
            code = fixed_code(field.subcon)
            offset = size_of([c for c in codes if c != "x"]) + codes.count("x")
            if code is not None:
                codes.append(code)
            elif isinstance(field.subcon, KafkaString):
                empty = [1] if field.subcon.compact else [0, 0]
                columns += [(offset + index, byte) for index, byte in enumerate(empty)]
                codes += ["x"] * len(empty)
            else:
                return None
        if shape.flexible:
            columns.append((size_of([c for c in codes if c != "x"]) + codes.count("x"), 0))
            codes.append("x")
        fixed = sum(code != "x" for code in codes)
        return (codes, columns) if fixed and len(columns) <= _MAX_TESTED_COLUMNS else None

    def _parse_rows_at_once(
        self, target: str, shape: StructShape, codes: list[str], columns: list[tuple[int, int]]
    ) -> None:
        size = size_of([code for code in codes if code != "x"]) + codes.count("x")
        self._block.add(f"q = pos + n * {size}")
        if columns:
            tests = [f"q <= {self._end}"]
            for offset, byte in columns:
                start = f"pos + {offset}" if offset else "pos"
                tests.append(f"buf[{start}:q:{size}].count({byte}) == n")
            self._block.indent(f"if {' and '.join(tests)}:")
        rows = f"l{self._depth}"
        self._block.add(f"{rows} = {target} = {self._new_list(target)}")
        names = [f"v{index}" for index, code in enumerate(codes) if code != "x"]
        comma = "," if len(names) == 1 else ""
        iterate = self._module.iterator(codes)
        elements = f"{iterate}(buf[pos:q])"
        if self._module.has_hooks:
            elements += f" if each is None else each({elements})"
        self._block.indent(f"for {', '.join(names)}{comma} in {elements}:")
        inner = self._new(shape)
        self._depth -= 1
        values = iter(names)
        for field in shape.fields:
            value = next(values) if fixed_code(field.subcon) is not None else "''"
            self._block.add(f"{inner}.{field.name} = {value}")
        self._block.add(f"{rows}.append({inner})")
        self._block.dedent()
        self._block.add("pos = q")
        if columns:
            self._block.dedent()
            self._block.indent("else:")

    # -- tags -----------------------------------------------------------------------------

    def _tag_function(self, shape: StructShape) -> str:
        """Return the name of the function that reads a non-empty tag section."""
        if not shape.tagged:
            return self._module.helper("read_unknown_tags")
        inner = ParseCompiler(self._module, end="stop")
        block = inner._block
        inner._rest_of_varint("count", "rest_of_tag_count")
        block.indent(f"for _ in {'tags' if self._module.has_hooks else 'range'}(count):")
        for name in ("tag", "n"):
            inner._read(name, "B")
            inner._flush()
            inner._rest_of_varint(name)
        block.add("stop = pos + n")
        block.indent("if stop > end:")
        block.add(f"{self._module.helper('refuse_length')}()")
        block.dedent()
        keyword = "if"
        for tag, tagged in shape.tagged.items():
            size = tagged.required_size(tag)
            has_size = "" if size is None else f" and n == {size}"
            block.indent(f"{keyword} tag == {tag}{has_size}:")
            inner._field(f"o.{tagged.attribute}", tagged.subcon)
            inner._flush()
            if size is None:
                block.indent("if pos != stop:")
                block.add(f"{self._module.helper('refuse_tag_size')}(tag)")
                block.dedent()
            block.dedent()
            keyword = "elif"
        block.indent("else:")
        block.indent("if o.unknown_tags is None:")
        block.add("o.unknown_tags = {}")
        block.dedent()
        block.add(f"o.unknown_tags[tag] = {inner._copy('stop')}")
        block.add("pos = stop")
        block.dedent()
        block.dedent()
        block.add("return pos")
        return self._module.shared_function("tags", "buf, pos, end, count, o", block)
