"""Checks after a run that each order has a bill, by the control API: no Kafka client is needed.

With the argument `--at-most-one-more`, it also checks that there is at most one bill more than
orders: after one failure, a service writes the bill of one order again, and not those of others.
"""

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


orders, bills = values("orders"), values("bills")
missing = {f"bill of {order}" for order in orders} - {*bills}
if missing:
    sys.exit(f"missing: {', '.join(sorted(missing))}")
if "--at-most-one-more" in sys.argv and len(bills) > len(orders) + 1:
    sys.exit(f"{len(bills)} bills for {len(orders)} orders")
