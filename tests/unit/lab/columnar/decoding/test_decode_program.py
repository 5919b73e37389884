"""Unit tests of decode programs: merged fixed-size fields, jumps of arrays and tags."""

from __future__ import annotations

from kafkalite.capture.model import Direction
from kafkalite.lab.columnar.decoding.decode_plan import message_plan
from kafkalite.lab.columnar.decoding.decode_program import (
    ANY_SIZE,
    ARRAY,
    BYTES,
    DONE,
    END_TAG,
    INT16,
    INT32,
    NEXT_ROW,
    NO_BUFFER,
    RUN,
    TAG,
    TAGS,
    ProgramWriter,
)
from kafkalite.protocol.primitives import FIRST_PRIVATE_TAG


def test_adjacent_fixed_size_fields_are_one_instruction() -> None:
    writer = ProgramWriter()
    first, skipped, last = (
        writer.add_fixed_size(0, 4, INT32),
        writer.add_fixed_size(0, 8, None),
        writer.add_fixed_size(0, 2, INT16),
    )
    program = writer.program()

    assert [row[:5] for row in program.code.tolist()] == [[RUN, 0, 14, 0, 2], [DONE, 0, 0, 0, 0]]
    assert skipped == NO_BUFFER
    assert program.fields.tolist() == [[INT32, 0, first], [INT16, 12, last]]
    assert [each.width for each in program.buffers] == [4, 2]


def test_empty_array_jumps_after_its_rows() -> None:
    writer = ProgramWriter()
    array = writer.begin_array(0, 4, 2, is_nullable=False, has_buffer=True)
    writer.add_bytes(array.level, 2, 100, is_nullable=False, is_text=True, has_buffer=True)
    writer.end_array(array)
    code = writer.program().code.tolist()

    assert [row[0] for row in code] == [ARRAY, BYTES, NEXT_ROW, DONE]
    assert code[0][-1] == 3
    assert code[2][3] == 1


def test_tagged_fields_return_to_the_tag_instruction() -> None:
    program = message_plan(1, 17, Direction.REQUEST).program
    kinds = program.code[:, 0].tolist()

    assert len(program.tags) > 0
    for tag, begin, level, instance, size in program.tags.tolist():
        assert tag >= 0
        assert 0 < begin < len(kinds)
        assert level > 0
        assert instance != NO_BUFFER
        assert size == (4 if tag == FIRST_PRIVATE_TAG else ANY_SIZE)
    returns = [row for row in program.code.tolist() if row[0] == END_TAG]
    assert {kinds[row[3]] for row in returns} == {TAG}
    assert kinds.count(TAGS) == kinds.count(TAG)
