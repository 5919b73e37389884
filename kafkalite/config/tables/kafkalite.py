"""Keys that Kafka does not have, with which an operator can select between rules."""

KEYS = """
group.consumer.member.id.validation string kafka one(kafka|uuid) medium cluster-wide
    Valid member ids of clients: kafka accepts any id that is not blank; uuid, as in the first
    version of KIP-1082, only a UUID in URL-safe base64, and of two members with the same id the
    one with the lower epoch is fenced.
group.consumer.offset.commit.fencing string assignment-epoch \
one(strict|revocation-epoch|assignment-epoch) medium cluster-wide
    Offset commits with an older member epoch that are accepted, in consumer and streams groups:
    strict, none; revocation-epoch, those since the member last revoked partitions (KAFKA-19779 as
    proposed); assignment-epoch, those of partitions assigned since, as Kafka 4.3 does (KIP-1251).
transaction.version int null 0..2 medium
    The level of this feature, which in Kafka is set when a cluster is formatted: 2, an epoch for
    each transaction (KIP-890); 1, a newer format of the transaction log; 0, neither. Without it,
    a new cluster has 2 and others remain unchanged.
"""
