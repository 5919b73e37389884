"""When the periodic work of each node is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.server.rounds import Rounds

if TYPE_CHECKING:
    from kafkalite.partitions.partition import Partition

_INTERVAL = "log.retention.check.interval.ms"


class _Led(NamedTuple):
    """The leader and the replicas of a partition."""

    leader: int
    replicas: tuple[int, ...] = (2, 1)


def included(rounds: Rounds, *partitions: _Led) -> list[bool]:
    return [rounds.includes(cast("Partition", partition)) for partition in partitions]


def test_a_fixed_interval_is_that_of_all_nodes() -> None:
    rounds = Rounds(100, BrokerConfig.from_text())
    assert rounds.next_ms(5, (1, 2)) == 105
    assert included(rounds, _Led(1), _Led(2), _Led(-1)) == [True, True, True]


@pytest.mark.parametrize(("text", "next_ms"), [("0", 10), ("70", 70), (f"{2**63 - 1}", None)])
def test_the_interval_of_a_setting_is_bounded(text: str, next_ms: int | None) -> None:
    config = BrokerConfig.from_text({"log.cleaner.backoff.ms": text})
    assert Rounds("log.cleaner.backoff.ms", config).next_ms(0, (1,)) == next_ms


def test_each_node_has_rounds_at_its_own_interval() -> None:
    config = BrokerConfig.from_text({_INTERVAL: "100"})
    config.configure_node(2, {_INTERVAL: "250"})
    rounds = Rounds(_INTERVAL, config)
    now_ms, seen = 0, []
    for _ in range(4):
        next_ms = rounds.next_ms(now_ms, (1, 2))
        assert next_ms is not None
        now_ms = next_ms
        seen.append((now_ms, *included(rounds, _Led(1), _Led(2))))
    assert seen == [
        (100, True, False),
        (200, True, False),
        (250, False, True),
        (300, True, False),
    ]


def test_the_first_replica_counts_while_a_partition_has_no_leader() -> None:
    config = BrokerConfig.from_text({_INTERVAL: "100"})
    config.configure_node(2, {_INTERVAL: "50"})
    rounds = Rounds(_INTERVAL, config)
    assert rounds.next_ms(0, (1, 2)) == 50
    assert included(rounds, _Led(-1), _Led(-1, (1, 2))) == [True, False]


def test_a_node_can_have_no_rounds() -> None:
    config = BrokerConfig.from_text({"log.flush.scheduler.interval.ms": "100"})
    config.configure_node(1, {"log.flush.scheduler.interval.ms": f"{2**63 - 1}"})
    rounds = Rounds("log.flush.scheduler.interval.ms", config)
    assert rounds.next_ms(0, (1,)) is None
    assert rounds.next_ms(0, (1, 2)) == 100
    assert included(rounds, _Led(1), _Led(2)) == [False, True]
