"""The assignors a coordinator can be configured with, by the names clients ask for."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkalite.groups.assignors.range import assign_range
from kafkalite.groups.assignors.uniform import assign_uniform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.assignors.contract import Assignor

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {"uniform": assign_uniform, "range": assign_range}
)
