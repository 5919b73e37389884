"""Checks after a run that each order has a bill, by the control API: no Kafka client is needed."""

from __future__ import annotations

import json
import os
import sys
from urllib.request import urlopen


def values(topic: str) -> list[str]:
    """Return the values of the records of a topic."""
    url = f"{os.environ['KAFKALITE_CONTROL']}/v1/topics/{topic}/records"
    with urlopen(url) as response:  # noqa: S310 - of the broker
        return [record["value"] for record in json.load(response)["records"]]


missing = {f"bill of {order}" for order in values("orders")} - {*values("bills")}
if missing:
    sys.exit(f"missing: {', '.join(sorted(missing))}")
