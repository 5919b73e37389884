"""API keys are numbers with Kafka's names."""

from __future__ import annotations

from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.spec import load_specs, snake_case


def test_api_keys_are_those_of_the_specs() -> None:
    keys = {spec.key for spec in load_specs() if spec.kind == "request"}
    assert {int(key) for key in ApiKey} == keys


def test_the_name_is_kafkas_in_upper_snake_case() -> None:
    assert {key.name for key in ApiKey} == {
        snake_case(codec.api_name(key)).upper() for key in codec.api_keys()
    }
    assert ApiKey(8) is ApiKey.OFFSET_COMMIT
    assert ApiKey["ADD_PARTITIONS_TO_TXN"] is ApiKey(24)
