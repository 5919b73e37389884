"""Mixed captures are read without problems, and a hot key has nine tenths of its requests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.lab.columnar.options import Options, Table
from kafkalite.lab.columnar.reading import read_file
from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_KEYS: Final[dict[str, tuple[ApiKey, Callable[[Any], object]]]] = {
    "group": (ApiKey.CONSUMER_GROUP_HEARTBEAT, lambda sent: sent.group_id),
    "member": (ApiKey.HEARTBEAT, lambda sent: sent.member_id),
    "partition": (ApiKey.PRODUCE, lambda sent: sent.topic_data[0].partition_data[0].index),
    "transactional-id": (ApiKey.END_TXN, lambda sent: sent.transactional_id),
}


def requests(folder: Path, hot: str | None, key: ApiKey) -> list[Any]:
    made = write(folder, 4_000_000, connections=100, file_bytes=2_500_000, is_mixed=True, hot=hot)
    options = Options(tables=frozenset({Table.PAIRS, Table.PROBLEMS}), api_keys=frozenset({key}))
    found: list[Any] = []
    for path in made.files:
        with path.open("rb") as file:
            for table, batch in read_file(file, path.name, options):
                assert table is Table.PAIRS, batch.to_pylist()
                for pair in batch.to_pylist():
                    parse = codec.request_parser(key, pair["api_version"])
                    frame = pair["request"]
                    found.append(parse(frame, pair["request_start"], len(frame))[0])
    return found


@pytest.mark.parametrize("hot", _KEYS)
def test_a_hot_key_has_nine_tenths_of_its_requests(tmp_path: Path, hot: str) -> None:
    api, value = _KEYS[hot]
    shares = []
    for name in (None, hot):
        counts = Counter(map(value, requests(tmp_path / str(name), name, api)))
        shares.append(max(counts.values()) / counts.total())
    balanced, with_hot_key = shares
    assert balanced < 0.35
    assert with_hot_key == pytest.approx(0.9, abs=0.05)


def test_a_generation_continues_where_the_one_before_ended(tmp_path: Path) -> None:
    sent = requests(tmp_path, "member", ApiKey.CONSUMER_GROUP_HEARTBEAT)
    counts = Counter(request.member_id for request in sent)
    member = max(counts, key=lambda each: counts[each])
    epochs = [request.member_epoch for request in sent if request.member_id == member]
    assert epochs[0] == 0
    assert epochs == sorted(epochs)
    assert max(epochs) > 2
