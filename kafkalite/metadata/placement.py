"""Placement of the replicas of new partitions; the first replica leads.

Similar to Kafka's StripedReplicaPlacer: leaders rotate over the nodes from a random one, replicas
of one partition are on different nodes and, if nodes have racks, on as many racks as possible. A
fenced node never leads, and it follows only if its rack has no other node left. A rack whose nodes
are all fenced has its turn like the others.
"""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.metadata.image import BrokerImage

_UNABLE = "Unable to replicate the partition {replication_factor} time(s): "


class PlacementError(KafkaError):
    """INVALID_REPLICATION_FACTOR: the nodes cannot have this number of replicas.

    `message` is Kafka's message for new topics, `reason` that for new partitions.
    """

    def __init__(self, replication_factor: int, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REPLICATION_FACTOR, message)
        self.reason = message.removeprefix(_UNABLE.format(replication_factor=replication_factor))


def interleave_racks(
    brokers: Mapping[int, BrokerImage], *, is_fenced: bool = False
) -> tuple[int, ...]:
    """Return the ids of unfenced or fenced nodes; neighbours have different racks, if possible."""
    racks: dict[str, list[int]] = {}
    for node_id in sorted(brokers):
        if brokers[node_id].is_fenced == is_fenced:
            racks.setdefault(brokers[node_id].rack or "", []).append(node_id)
    rounds = zip_longest(*(racks[rack] for rack in sorted(racks)))
    return tuple(node_id for node_id in chain.from_iterable(rounds) if node_id is not None)


def plan_replicas(
    brokers: Mapping[int, BrokerImage], *, partitions: int, replication_factor: int, start: int
) -> tuple[tuple[int, ...], ...]:
    """Return the replicas of each of `partitions` new partitions, leaders first.

    `start` is a random number that selects the node of the first leader. Raises PlacementError if
    there are fewer nodes than replicas, or all nodes are fenced.
    """
    ring = interleave_racks(brokers)
    fenced_ring = interleave_racks(brokers, is_fenced=True)
    if not ring:
        raise PlacementError(
            replication_factor,
            _UNABLE.format(replication_factor=replication_factor)
            + "All brokers are currently fenced, or have all their log directories cordoned.",
        )
    if replication_factor > len(brokers):
        raise PlacementError(
            replication_factor,
            ErrorText.TOO_FEW_BROKERS.format(
                replication_factor=replication_factor, brokers=len(brokers)
            ),
        )
    order_followers = _take_turns if fenced_ring else _prefer_unused_racks
    # The assignments repeat after some rounds.
    known: dict[tuple[int, int, int], tuple[int, ...]] = {}
    assignments = []
    for index in range(partitions):
        leader_slot = (start + index) % len(ring)
        # After each full round the followers shift by one, so that pairs of nodes vary.
        shift = index // len(ring) % max(1, len(ring) - 1)
        fenced_shift = index % max(1, len(fenced_ring))
        turn = leader_slot, shift, fenced_shift
        if turn not in known:
            candidates = ring[leader_slot + 1 :] + ring[:leader_slot]
            followers = order_followers(
                ring[leader_slot],
                (
                    *candidates[shift:],
                    *candidates[:shift],
                    *fenced_ring[fenced_shift:],
                    *fenced_ring[:fenced_shift],
                ),
                brokers,
            )
            known[turn] = (ring[leader_slot], *followers[: replication_factor - 1])
        assignments.append(known[turn])
    return tuple(assignments)


def _take_turns(
    leader: int, candidates: tuple[int, ...], brokers: Mapping[int, BrokerImage]
) -> tuple[int, ...]:
    """Return the candidates of one rack after the other; the rack of the leader is the last."""
    racks: dict[str, list[int]] = {rack: [] for rack in sorted(map(_rack, brokers.values()))}
    for node_id in candidates:
        racks[_rack(brokers[node_id])].append(node_id)
    names = list(racks)
    first = names.index(_rack(brokers[leader])) + 1
    rounds = zip_longest(*(racks[name] for name in (*names[first:], *names[:first])))
    return tuple(node_id for node_id in chain.from_iterable(rounds) if node_id is not None)


def _rack(broker: BrokerImage) -> str:
    return broker.rack or ""


def _prefer_unused_racks(
    leader: int, candidates: tuple[int, ...], brokers: Mapping[int, BrokerImage]
) -> tuple[int, ...]:
    """Return the candidates in order, but nodes on unused racks come first."""
    racks = {brokers[leader].rack}
    on_unused_racks: list[int] = []
    on_used_racks: list[int] = []
    for node_id in candidates:
        (on_used_racks if brokers[node_id].rack in racks else on_unused_racks).append(node_id)
        racks.add(brokers[node_id].rack)
    return (*on_unused_racks, *on_used_racks)
