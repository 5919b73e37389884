"""Proofs of the findings of a followed capture: requests of this batch and of earlier ones.

A finding may be about a request of an earlier batch, so the places of three kinds of requests are
stored: those that the rows of ghosts name, the last one of each member, which becomes a ghost's if
the member stays silent, and commits that wait for their classification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from kafkalite.lab.spark.audits.commit_checks import CLASSIFIED
from kafkalite.lab.spark.audits.members import GHOSTS
from kafkalite.lab.spark.audits.proofs import (
    PROOFS,
    Places,
    at_times,
    find_requests,
    places_in,
)
from kafkalite.lab.spark.state.tables import Table, table

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from kafkalite.lab.spark.follow.state import BatchState
    from kafkalite.lab.spark.requests import Requests

    Times = npt.NDArray[np.int64]

PROVEN_COMMITS: Final = Table(CLASSIFIED.name, CLASSIFIED.about, (*CLASSIFIED.columns, PROOFS))
"""`CLASSIFIED` with proofs."""
PROVEN_GHOSTS: Final = Table(GHOSTS.name, GHOSTS.about, (*GHOSTS.columns, PROOFS))
"""`GHOSTS` with proofs."""

_STORED: Final = table("request_places", "The place of a request that a finding may name")
"""Its rows are `PLACES`."""


def collect_places(
    state: BatchState, requests: Requests, found: Iterable[Times], retained: Iterable[Times]
) -> Places:
    """Return the requests at the times of this batch's findings, from this batch or stored ones.

    The requests at the times in `retained` are stored for later batches.
    """
    needed = _sorted(retained)
    named = _sorted((needed, *found))
    rows = pa.concat_tables([*state.previous_rows(_STORED), find_requests(requests, named)])
    state.store_rows(_STORED, at_times(rows, needed))
    return places_in(rows, named)


def _sorted(times: Iterable[Times]) -> Times:
    return np.unique(np.concatenate([np.zeros(0, np.int64), *times]))
