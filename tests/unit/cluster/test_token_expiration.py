"""Expired delegation tokens are removed periodically, by the clock of the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.cluster import token_expiration
from kafkalite.cluster.token_expiration import TokenExpiration
from kafkalite.metadata.delegation_tokens import TokenRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.cluster.cluster import TestCluster
from tests.cluster.metadata import MetadataCluster

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from kafkalite.metadata.controller import MetadataController

SETTINGS = {
    "delegation.token.secret.key": "key",
    "delegation.token.expiry.time.ms": "50000",
    "delegation.token.expiry.check.interval.ms": "60000",
}


class ExpiringTokens(MetadataCluster):
    """A controller whose tokens are removed periodically."""

    def __init__(self) -> None:
        super().__init__(
            delegation_token_secret_key="key",  # noqa: S106 - of a test
            delegation_token_expiry_time_ms="50000",  # noqa: S106
            delegation_token_expiry_check_interval_ms="60000",  # noqa: S106
        )
        self.expiration = TokenExpiration(self.clock, self.config, self.controller)
        self.controller.subscribe(self.expiration.on_image)
        self.expiration.start()

    @property
    def token_count(self) -> int:
        """The number of tokens."""
        return len(self.image.delegation_tokens)


def create(controller: MetadataController, lifetime_ms: int = -1) -> None:
    controller.create_delegation_token(TokenRequest("User:a", "User:a", (), lifetime_ms))


def test_expired_tokens_are_removed_at_multiples_of_the_interval() -> None:
    tokens = ExpiringTokens()
    tokens.clock.advance(5_000)
    create(tokens.controller)
    tokens.clock.advance(54_999)
    assert tokens.token_count == 1
    tokens.clock.advance(1)
    assert tokens.token_count == 0


def test_a_token_that_has_not_expired_is_removed_later() -> None:
    tokens = ExpiringTokens()
    tokens.clock.advance(20_000)
    create(tokens.controller)
    tokens.clock.advance(40_000)
    assert tokens.token_count == 1
    tokens.clock.advance(60_000)
    assert tokens.token_count == 0


def test_no_timer_runs_without_tokens() -> None:
    tokens = ExpiringTokens()
    assert tokens.clock.next_deadline_ms is None
    create(tokens.controller)
    assert tokens.clock.next_deadline_ms == tokens.clock.now_ms() + 60_000
    tokens.clock.advance(60_000)
    assert tokens.clock.next_deadline_ms is None


def test_many_tokens_are_removed_in_several_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_expiration, "MAX_REMOVALS", 2)
    tokens = ExpiringTokens()
    for _ in range(3):
        create(tokens.controller)
    tokens.clock.advance(60_000)
    assert tokens.token_count == 1
    tokens.clock.advance(token_expiration.CONTINUE_DELAY_MS)
    assert tokens.token_count == 0


def test_a_failed_removal_is_tried_again_at_the_next_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens = ExpiringTokens()
    create(tokens.controller)
    remove = tokens.controller.remove_expired_delegation_tokens

    def fail(limit: int) -> bool:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(limit))

    monkeypatch.setattr(tokens.controller, "remove_expired_delegation_tokens", fail)
    tokens.clock.advance(60_000)
    assert tokens.token_count == 1
    monkeypatch.setattr(tokens.controller, "remove_expired_delegation_tokens", remove)
    tokens.clock.advance(59_999)
    assert tokens.token_count == 1
    tokens.clock.advance(1)
    assert tokens.token_count == 0


def test_close_stops_the_timer() -> None:
    tokens = ExpiringTokens()
    create(tokens.controller)
    tokens.expiration.close()
    tokens.expiration.close()
    tokens.clock.advance(120_000)
    assert tokens.token_count == 1


def test_a_cluster_removes_tokens_also_after_a_restart(tmp_path: Path) -> None:
    wire = TestCluster(tmp_path, config=SETTINGS)
    create(wire.cluster.metadata)
    wire.restart()
    assert len(wire.cluster.metadata.image.delegation_tokens) == 1
    wire.clock.advance(60_000)
    assert wire.cluster.metadata.image.delegation_tokens == {}
    wire.end()


def test_a_cluster_without_a_secret_key_removes_no_tokens(tmp_path: Path) -> None:
    wire = TestCluster(tmp_path)
    assert wire.cluster.token_expiration is None
    wire.end()
