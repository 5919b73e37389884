"""The layers of a node's settings, gathered from the properties file and the metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.layers import BrokerLayers
from kafkalite.metadata.image import ResourceType

if TYPE_CHECKING:
    from kafkalite.apis.context import Services


def layers_of(services: Services, node_id: int) -> BrokerLayers:
    """Return what is set for one node, and where."""
    image = services.metadata.image
    return BrokerLayers(
        node=image.config_of(ResourceType.BROKER, str(node_id)),
        everybody=image.config_of(ResourceType.BROKER, ""),
        static=services.config.node_text(node_id),
    )
