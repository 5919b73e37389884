"""Metadata hook of the build: the addresses of the project, and the description of the package.

Both follow from one address, that of the repository. It comes from the environment variable
KAFKALITE_REPOSITORY_URL, which the release workflow sets, or else from `repository` in
pyproject.toml. Without it, the description is README.md as it is.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

VARIABLE = "KAFKALITE_REPOSITORY_URL"
_RELATIVE_LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)]+\))")
_RELATIVE_IMAGE = re.compile(r"(!\[[^]]*\]\()(?![a-z]+:)([^)]+\))")


class ProjectAddresses(MetadataHookInterface):
    """Adds the links of the project, and makes relative links of the description absolute."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `urls` and `readme`."""
        repository = os.environ.get(VARIABLE) or self.config["repository"]
        description = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["urls"] = {"Kafka protocol": "https://kafka.apache.org/protocol"}
        if repository:
            repository = repository.rstrip("/")
            metadata["urls"] |= {
                "Repository": repository,
                "Documentation": f"{repository}/blob/main/docs/index.md",
                "Changelog": f"{repository}/blob/main/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
            description = _RELATIVE_IMAGE.sub(rf"\1{repository}/raw/main/\2", description)
            description = _RELATIVE_LINK.sub(rf"\1{repository}/blob/main/\2", description)
        metadata["readme"] = {"content-type": "text/markdown", "text": description}
