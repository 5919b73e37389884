"""A plugin of pytest: brokers are the earlier release of the page of known bugs by default."""

from __future__ import annotations

from kafkalite.testing import Broker
from tests.clients.ghost_table import RELEASES

_DEFAULTS = Broker.__init__.__kwdefaults__
assert _DEFAULTS is not None
_DEFAULTS["as_version"] = RELEASES[0]
