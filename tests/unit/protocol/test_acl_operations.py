"""The codes of operations and resource types are those of Kafka."""

from __future__ import annotations

from kafkalite.protocol.acl_operations import Operation, Resource


def test_codes_are_those_of_kafka() -> None:
    assert [each.value for each in Operation] == list(range(3, 16))
    assert (Operation.READ, Operation.TWO_PHASE_COMMIT) == (3, 15)
    assert {each.name: each.value for each in Resource} == {
        "TOPIC": 2, "GROUP": 3, "CLUSTER": 4, "TRANSACTIONAL_ID": 5, "DELEGATION_TOKEN": 6,
        "USER": 7,
    }  # fmt: skip
