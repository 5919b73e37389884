"""Compiled modules can be executed."""

from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol.generator.codecs import compile_module
from tests.unit.protocol.compiled import functions, tree


def test_module_has_the_requested_functions() -> None:
    beat = tree("heartbeat_request", 4)
    names: dict[str, object] = {}
    exec(compile_module({"parse_a": beat}, {"build_b": beat}), names)  # noqa: S102 - the text is ours
    assert callable(names["parse_a"])
    assert callable(names["build_b"])


def test_built_message_is_parsed_back() -> None:
    parse, build = functions("heartbeat_request", 4)
    beat = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    out: list[bytes | memoryview] = []
    build(beat, out)
    frame = b"".join(out)
    assert parse(frame, 0, len(frame)) == (beat, len(frame))


def test_compiling_twice_gives_the_same_text() -> None:
    metadata = tree("metadata_response", 12)
    assert compile_module({"parse": metadata}, {}) == compile_module({"parse": metadata}, {})
