"""Keys that Kafka does not have; they select between rules."""

from typing import Final

CLIENT_TELEMETRY: Final = "kafkalite.client.telemetry"

KEYS = """
eligible.leader.replicas.version int null 0..1 medium
    The level of this feature. 1: replicas that leave an ISR below its minimum remain eligible as
    leader (KIP-966). If it is not set, a new cluster has the level of the release, and an existing
    cluster keeps its level.
group.consumer.member.id.validation string kafka one(kafka|uuid) medium cluster-wide
    Member ids that clients may choose. kafka: any id that is not blank. uuid, as in the first
    version of KIP-1082: only a UUID in URL-safe base64; if two members have the same id, the one
    with the lower epoch is fenced.
group.consumer.offset.commit.fencing string assignment-epoch \
one(strict|revocation-epoch|assignment-epoch) medium cluster-wide
    Offset commits with an older member epoch that consumer and streams groups accept. strict: none.
    revocation-epoch: if the member has not revoked partitions since that epoch (KAFKA-19779 as
    proposed). assignment-epoch: for partitions that the member has owned since that epoch, as since
    Kafka 4.3 (KIP-1251).
group.version int null 0..1 medium
    The level of this feature, as of eligible.leader.replicas.version. 0 disables the consumer
    protocol (KIP-848).
kafkalite.client.telemetry boolean false - medium
    Whether clients are offered to push their metrics (KIP-714), as by a Kafka with a metrics
    reporter that receives them. The metrics can be read with `kafkalite client-metrics`.
kafkalite.partition.epochs boolean false - medium cluster-wide
    Whether the broker sends and checks the partition epochs of KIP-232, which identify a partition
    among those that had its name before. false: it neither sends the fields nor reads them. true:
    responses contain the epochs; Fetch, ListOffsets and offset commits with another epoch than
    expected are refused.
share.version int null 0..2 medium
    The level of this feature, as of eligible.leader.replicas.version. 0 disables share groups
    (KIP-932), 1 their dead-letter topics (KIP-1191).
streams.version int null 0..1 medium
    The level of this feature, as of eligible.leader.replicas.version. 0 disables streams groups
    (KIP-1071).
transaction.version int null 0..2 medium
    The level of this feature, which in Kafka is set when a cluster is formatted. 2: an epoch for
    each transaction (KIP-890). 1: only the newer format of the transaction log. 0: neither. If it
    is not set, a new cluster has level 2, and an existing cluster keeps its level.
"""
