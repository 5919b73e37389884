"""The migration policy and what it allows."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.groups.migration.policy import MigrationPolicy, migration_policy


@pytest.mark.parametrize(
    ("text", "upgrades", "downgrades", "admits"),
    [
        ("disabled", False, False, False),
        ("upgrade", True, False, True),
        ("downgrade", False, True, True),
        ("bidirectional", True, True, True),
        ("BiDirectional", True, True, True),
    ],
)
def test_each_policy_allows_its_migrations(
    text: str,
    upgrades: bool,  # noqa: FBT001
    downgrades: bool,  # noqa: FBT001
    admits: bool,  # noqa: FBT001
) -> None:
    policy = migration_policy(BrokerConfig.from_text({"group.consumer.migration.policy": text}))
    assert (policy.upgrades, policy.downgrades) == (upgrades, downgrades)
    assert policy.admits_classic_members == admits


def test_the_default_policy_is_bidirectional() -> None:
    assert migration_policy(BrokerConfig.from_text({})) is MigrationPolicy.BIDIRECTIONAL
