"""The settings of a topic that was just made, as CreateTopics shows them (KIP-525)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.config_layers import layers_of
from kafkalite.config.describe import describe_topic
from kafkalite.protocol.messages.create_topics import CreateTopicsResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.apis.context import Services


def created_configs(
    own: Mapping[str, str], services: Services
) -> list[CreateTopicsResponse.CreatableTopicConfigs]:
    """Return every setting of a new topic, in order of their names."""
    layers = layers_of(services, services.metadata.image.controller_id)
    return [
        CreateTopicsResponse.CreatableTopicConfigs(
            name=entry.name,
            # As it was written, not as it was read.
            value=own.get(entry.name, entry.value),
            read_only=entry.is_read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in describe_topic(own, layers, services.config)
    ]
