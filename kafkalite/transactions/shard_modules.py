"""The modules that the first FindCoordinator for a transactional id needs."""

from __future__ import annotations

from typing import Final

from kafkalite.ports.module_steps import ModuleSteps

SHARD_MODULES: Final = ModuleSteps(
    "coordinator.runtime",
    "transactions.coordinator",
    "transactions.shard",
)
