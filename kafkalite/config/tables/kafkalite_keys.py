"""Keys that Kafka does not have: where kafkalite lets an operator choose between rules."""

KEYS = """
group.consumer.member.id.validation string kafka one(kafka|uuid) medium cluster-wide
    What a member id drawn by a client must look like: kafka takes any that is not blank; uuid, as
    KIP-1082 first had it, only a UUID in URL-safe base64, and of two incarnations with one id the
    one at the lower epoch is fenced.
group.consumer.offset.commit.fencing string assignment-epoch \
one(strict|revocation-epoch|assignment-epoch) medium cluster-wide
    Which offset commits of members that have moved on are taken, in consumer and streams groups:
    strict, none; revocation-epoch, those since the member last gave partitions up (KAFKA-19779 as
    proposed); assignment-epoch, those of partitions held since, as Kafka 4.3 does (KIP-1251).
transaction.version int null 0..2 medium
    The level of this feature in the cluster, which a Kafka is given when it is formatted: 2, an
    epoch for each transaction (KIP-890); 1, a newer form of the log of transactions; 0, neither.
    Left out, a new cluster has 2 and others stay as they are.
"""
