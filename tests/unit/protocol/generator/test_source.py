"""The text of a generated module has no repetitions."""

from construct import Bytes, Flag, Float64b, Int8sb, Int16ub, Int32sb, Int64sb

from kafkalite.protocol.generator.source import Block, SourceModule, fixed_code, size_of
from kafkalite.protocol.primitives import VARINT, MessageClass

HEARTBEAT_REQUEST = MessageClass(
    "kafkalite.protocol._generated.messages.heartbeat", "HeartbeatRequest"
)


def test_fields_of_fixed_size_have_format_characters() -> None:
    subcons = (Flag, Int8sb, Int16ub, Int32sb, Int64sb, Float64b, Bytes(16))
    codes = [fixed_code(subcon) for subcon in subcons]
    assert codes == ["?", "b", "H", "i", "q", "d", "16s"]
    assert fixed_code(VARINT) is None


def test_size_of_format_characters_is_their_sum() -> None:
    assert size_of(["?", "b", "H", "i", "q", "d", "16s"]) == 40


def test_a_format_is_defined_once() -> None:
    module = SourceModule()
    assert module.unpacker(["i", "16s", "?"]) == module.unpacker(["i", "16s", "?"]) == "U_iut"
    assert module.render().count('Struct(">i16s?").unpack_from') == 1


def test_a_class_is_imported_by_its_module() -> None:
    module = SourceModule()
    assert module.message_class(HEARTBEAT_REQUEST) == module.message_class(HEARTBEAT_REQUEST)
    assert f"from {HEARTBEAT_REQUEST.module} import HeartbeatRequest\n" in module.render()


def block(line: str) -> Block:
    found = Block()
    found.add(line)
    return found


def test_equal_functions_are_defined_once() -> None:
    module = SourceModule()
    module.function("first", "a", block("return a"))
    module.function("second", "a", block("return a"))
    names: dict[str, object] = {}
    exec(module.render(), names)  # noqa: S102 - the text is ours
    assert names["first"] is names["second"]


def test_helpers_with_one_body_have_one_name() -> None:
    module = SourceModule()
    first = module.shared_function("tags", "a", block("return a"))
    assert module.shared_function("tags", "a", block("return a")) == first
    assert module.shared_function("tags", "a", block("return -a")) != first


def test_blocks_are_indented() -> None:
    found = Block()
    found.indent("if a:")
    found.add("b")
    found.dedent()
    found.add("c")
    assert found.lines == ["    if a:", "        b", "    c"]
