"""Settings are worked out once for each group, and again when they may have changed."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.groups.settings import GroupSettingsBook


class Soft:
    def __init__(self) -> None:
        self.settings: tuple[int, tuple[int, int] | None] = (0, None)


class Group:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.soft = Soft()


class Book(GroupSettingsBook[tuple[int, int]]):
    """Counts how often it works something out."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config)
        self.worked_out = 0

    def work_out(self, config: BrokerConfig, group_id: str) -> tuple[int, int]:
        self.worked_out += 1
        return (
            config.group_int(group_id, "consumer.heartbeat.interval.ms"),
            config.int("group.consumer.max.size"),
        )


def test_a_group_asks_the_configuration_once() -> None:
    book, group = Book(BrokerConfig.from_text({"group.consumer.max.size": "8"})), Group("g")
    assert [book.of(group) for _ in range(3)] == [(1_000, 8)] * 3
    assert book.worked_out == 1


def test_a_change_counts_when_the_book_is_told_of_it() -> None:
    config = BrokerConfig.from_text({})
    book, group = Book(config), Group("g")
    before = book.of(group)
    config.publish({}, {"g": {"consumer.heartbeat.interval.ms": "6000"}})
    assert book.of(group) is before
    book.forget()
    assert book.of(group)[0] == 6_000


def test_groups_without_settings_of_their_own_share_what_they_go_by() -> None:
    config = BrokerConfig.from_text({})
    config.publish({}, {"own": {"consumer.heartbeat.interval.ms": "6000"}})
    book = Book(config)
    assert book.of(Group("own"))[0] == 6_000
    assert book.of(Group("a")) is book.of(Group("b"))
