"""Programs are written as they are run: neighbours grow together, and places to go are known."""

from __future__ import annotations

from kafkalite.capture.model import Direction
from kafkalite.columnar.plan import message_plan
from kafkalite.columnar.program import (
    AGAIN,
    COUNTED,
    DONE,
    INT16,
    INT32,
    ROWS,
    RUN,
    TAG,
    TAGGED,
    TAGS,
    UNKEPT,
    Writer,
)


def test_neighbours_of_fixed_size_are_one_instruction() -> None:
    writer = Writer()
    first, skipped, last = (
        writer.fixed(0, 4, INT32),
        writer.fixed(0, 8, None),
        writer.fixed(0, 2, INT16),
    )
    program = writer.program()

    assert [row[:5] for row in program.code.tolist()] == [[RUN, 0, 14, 0, 2], [DONE, 0, 0, 0, 0]]
    assert skipped == UNKEPT
    assert program.fields.tolist() == [[INT32, 0, first], [INT16, 12, last]]
    assert [each.width for each in program.buffers] == [4, 2]


def test_an_empty_array_leads_behind_its_rows() -> None:
    writer = Writer()
    array = writer.begin_rows(0, 4, 2, nullable=False, is_kept=True)
    writer.counted(array.level, 2, 100, nullable=False, is_text=True, is_kept=True)
    writer.end_rows(array)
    code = writer.program().code.tolist()

    assert [row[0] for row in code] == [ROWS, COUNTED, AGAIN, DONE]
    assert code[0][-1] == 3
    assert code[2][3] == 1


def test_known_tags_begin_somewhere_and_lead_back() -> None:
    program = message_plan(1, 17, Direction.REQUEST).program
    kinds = program.code[:, 0].tolist()

    assert len(program.tags) > 0
    for tag, begin, level, which in program.tags.tolist():
        assert tag >= 0
        assert 0 < begin < len(kinds)
        assert level > 0
        assert which != UNKEPT
    backs = [row for row in program.code.tolist() if row[0] == TAGGED]
    assert {kinds[row[3]] for row in backs} == {TAG}
    assert kinds.count(TAGS) == kinds.count(TAG)
