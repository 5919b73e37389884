"""Names of Kafka's APIs, including those without a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.protocol._generated.codecs.index import APIS

if TYPE_CHECKING:
    from collections.abc import Mapping

APIS_WITHOUT_SPEC: Final[Mapping[int, str]] = {
    4: "LeaderAndIsr",
    5: "StopReplica",
    6: "UpdateMetadata",
    7: "ControlledShutdown",
    52: "Vote",
    53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch",
    56: "AlterPartition",
    58: "Envelope",
    59: "FetchSnapshot",
    62: "BrokerRegistration",
    63: "BrokerHeartbeat",
    67: "AllocateProducerIds",
    70: "ControllerRegistration",
    73: "AssignReplicasToDirs",
    82: "UpdateRaftVoter",
}
"""API key → name, of APIs that only brokers and controllers use."""


def known_api_name(api_key: int) -> str | None:
    """Return Kafka's name of an API, such as "OffsetCommit"; None for an unknown key."""
    return APIS[api_key][1] if api_key in APIS else APIS_WITHOUT_SPEC.get(api_key)


def unknown_name_message(name: str) -> str:
    """Return a message about a name that no API with a spec has, with the most similar name."""
    from difflib import get_close_matches  # noqa: PLC0415 - for mistakes only

    names = {each.lower(): each for _, each, *_ in APIS.values()}
    similar = get_close_matches(name.lower(), names, n=1)
    return f"unknown API {name!r}" + (f"; did you mean {names[similar[0]]}?" if similar else "")


def not_served_message(api_key: int) -> str:
    """Return a message about an API that is not served, with its name if it is known."""
    name = known_api_name(api_key)
    if name is None:
        return f"unknown API key {api_key} is not served"
    return f"{name} (API key {api_key}) is not served"
