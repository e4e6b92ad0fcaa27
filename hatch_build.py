"""What the package says of itself and pyproject.toml cannot: its addresses, and README with them.

A package index shows README without the files around it, so every link into this repository must be
a whole address there. The address is stated once: `repository` in pyproject.toml. While it is empty
the links stay as they are.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

OWN_LINK = re.compile(r"(?P<picture>!?)(?P<text>\[[^\]]*\])\((?!\w+:|#)(?P<path>[^)\s]+)\)")
"""Of the repository: neither another address nor a heading of the same page."""
OWN_PICTURE = re.compile(r'(?P<attribute>\bsrc(?:set)?)="(?!\w+:)(?P<path>[^"]+)"')
"""In HTML."""


class Addresses(MetadataHookInterface):
    """hatchling asks it whenever it builds anything."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in the fields that pyproject.toml calls dynamic."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository, version = str(self.config["repository"]).rstrip("/"), metadata["version"]
        metadata["urls"] = urls(repository, version) if repository else {}
        text = absolute(readme, repository, version) if repository else readme
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def urls(repository: str, version: str) -> dict[str, str]:
    """By the names that package indexes have pictures for."""
    return {
        "Homepage": repository,
        "Documentation": f"{repository}/blob/v{version}/docs/index.md",
        "Changelog": f"{repository}/blob/v{version}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def absolute(markdown: str, repository: str, version: str) -> str:
    """Every link and picture of the repository, as it was at this version."""

    def whole(link: re.Match[str]) -> str:
        kind = "raw" if link["picture"] else "blob"
        return f"{link['picture']}{link['text']}({repository}/{kind}/v{version}/{link['path']})"

    links = OWN_LINK.sub(whole, markdown)
    return OWN_PICTURE.sub(rf'\g<attribute>="{repository}/raw/v{version}/\g<path>"', links)
