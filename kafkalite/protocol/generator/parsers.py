"""Construct tree → the source of `parse(buf, pos, end) -> (message, pos)`.

Measured optimisations: adjacent fields of fixed size are unpacked together with the first byte of
the length after them; varints are read inline; slots of a bare instance are set directly; an empty
tag section costs a test of one byte; bounds are checked by `unpack_from` and indexing, and one
comparison with `end` detects truncated slices. An array whose rows all have the same size is
unpacked at once. That is tested by counting the values in the columns of length and tag bytes,
which runs in C. The test is exact, so the slow loop runs only for other arrays.
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

_MOST_COLUMNS: Final = 4
"""Maximum columns that are tested; a test of more columns takes longer than it saves."""


def smallest_size(subcon: Construct) -> int:
    """Return the minimum number of bytes of a construct."""
    code = fixed_code(subcon)
    if code is not None:
        return size_of([code])
    if isinstance(subcon, KafkaStruct):
        if subcon.shape.nullable:
            return 1
        return sum(smallest_size(field.subcon) for field in subcon.shape.fields) + int(
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
        self._block.add(f"{self._module.helper('refuse_end')}()")
        self._block.dedent()
        self._block.add(f"return {target}, pos")
        self._module.function(name, "buf, pos, end", self._block)

    # -- fixed runs ---------------------------------------------------------------------

    def _take(self, target: str, code: str) -> None:
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

    def _rest_of_varint(self, name: str) -> None:
        rest = self._module.helper("rest_of_varint")
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
            self._take("n", "B")
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
            self._take(target, code)
        elif isinstance(node, KafkaStruct):
            self._nested(target, node)
        elif isinstance(node, KafkaArray):
            self._array(target, node)
        else:
            self._counted(target, node)

    def _nested(self, target: str, node: KafkaStruct) -> None:
        if not node.shape.nullable:
            # A run of fixed fields continues across the edges of a struct.
            inner = self._struct(node)
            self._block.add(f"{target} = {inner}")
            return
        self._take("n", "B" if node.shape.behind_tag else "b")
        self._flush()
        if node.shape.behind_tag:
            self._rest_of_varint("n")
        self._block.indent("if not n:" if node.shape.behind_tag else "if n < 0:")
        self._block.add(f"{target} = None")
        self._block.dedent()
        self._block.indent("else:")
        inner = self._struct(node)
        self._flush()
        self._block.add(f"{target} = {inner}")
        self._block.dedent()

    # -- strings and bytes ----------------------------------------------------------------

    def _length(self, node: Construct) -> None:
        """Read a length into n, which is the length plus one for a compact type."""
        self._take("n", length_code(node))
        self._flush()
        if node.compact:
            is_string = isinstance(node, KafkaString)
            rest = self._module.helper("rest_of_string_length" if is_string else "rest_of_varint")
            self._block.indent("if n > 127:")
            self._block.add(f"n, pos = {rest}(buf, pos, n)")
            self._block.dedent()
        self._block.indent("if n:" if node.compact else "if n >= 0:")

    def _null(self, target: str, node: Construct) -> None:
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

    def _counted(self, target: str, node: KafkaString | KafkaBytes) -> None:
        self._length(node)
        self._block.add(f"q = pos + n{' - 1' if node.compact else ''}")
        self._block.add(f"{target} = {self._slice(node)}")
        self._block.add("pos = q")
        self._null(target, node)

    def _slice(self, node: KafkaString | KafkaBytes) -> str:
        if isinstance(node, KafkaString):
            return "buf[pos:q].decode()"
        return "memoryview(buf)[pos:q]" if node.is_records else "bytes(buf[pos:q])"

    # -- arrays ---------------------------------------------------------------------------

    def _array(self, target: str, node: KafkaArray) -> None:
        self._length(node)
        if node.compact:
            self._block.add("n -= 1")
        size = smallest_size(node.subcon)
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
            self._counted("s", node.subcon)
            self._block.add(f"{rows}.append(s)")
            self._block.dedent()
        self._null(target, node)

    def _fixed_array(self, target: str, code: str) -> None:
        if code == "16s":
            self._block.add(f"{target} = {self._module.helper('uuids')}(buf, pos, n)")
        else:
            numbers = self._module.helper("numbers")
            self._block.add(f'{target} = {numbers}("{code}", buf, pos, n)')
        self._block.add(f"pos += n * {size_of([code])}")

    def _open_rows(self, target: str) -> str:
        rows = f"l{self._depth}"
        self._block.add(f"{rows} = {target} = []")
        self._block.indent("for _ in range(n):")
        return rows

    def _rows(self, target: str, node: KafkaStruct) -> None:
        flat = self._flat(node.shape)
        if flat is not None:
            self._speculate(target, node.shape, *flat)
        if flat is None or flat[1]:
            rows = self._open_rows(target)
            inner = self._struct(node)
            self._flush()
            self._block.add(f"{rows}.append({inner})")
            self._block.dedent()
        if flat is not None and flat[1]:
            self._block.dedent()

    def _flat(self, shape: StructShape) -> tuple[list[str], list[tuple[int, int]]] | None:
        """Return the codes of a row with empty strings, and the columns that must be empty.

        A column is (offset, byte). None if rows have other fields than fixed ones and strings.
        """
        codes: list[str] = []
        columns: list[tuple[int, int]] = []
        for field in shape.fields:
            code = fixed_code(field.subcon)
            at = size_of([c for c in codes if c != "x"]) + codes.count("x")
            if code is not None:
                codes.append(code)
            elif isinstance(field.subcon, KafkaString):
                empty = [1] if field.subcon.compact else [0, 0]
                columns += [(at + index, byte) for index, byte in enumerate(empty)]
                codes += ["x"] * len(empty)
            else:
                return None
        if shape.flexible:
            columns.append((size_of([c for c in codes if c != "x"]) + codes.count("x"), 0))
            codes.append("x")
        fixed = sum(code != "x" for code in codes)
        return (codes, columns) if fixed and len(columns) <= _MOST_COLUMNS else None

    def _speculate(
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
        self._block.add(f"{rows} = {target} = []")
        names = [f"v{index}" for index, code in enumerate(codes) if code != "x"]
        comma = "," if len(names) == 1 else ""
        iterate = self._module.iterator(codes)
        self._block.indent(f"for {', '.join(names)}{comma} in {iterate}(buf[pos:q]):")
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
        inner._rest_of_varint("count")
        block.indent("for _ in range(count):")
        for name in ("tag", "n"):
            inner._take(name, "B")
            inner._flush()
            inner._rest_of_varint(name)
        block.add("stop = pos + n")
        block.indent("if stop > end:")
        block.add(f"{self._module.helper('refuse_length')}()")
        block.dedent()
        word = "if"
        for tag, tagged in shape.tagged.items():
            block.indent(f"{word} tag == {tag}:")
            inner._field(f"o.{tagged.attribute}", tagged.subcon)
            inner._flush()
            block.indent("if pos != stop:")
            block.add(f"{self._module.helper('refuse_tag')}(tag)")
            block.dedent()
            block.dedent()
            word = "elif"
        block.indent("else:")
        block.indent("if o.unknown_tags is None:")
        block.add("o.unknown_tags = {}")
        block.dedent()
        block.add("o.unknown_tags[tag] = bytes(buf[pos:stop])")
        block.add("pos = stop")
        block.dedent()
        block.dedent()
        block.add("return pos")
        return self._module.shared_function("tags", "buf, pos, end, count, o", block)
