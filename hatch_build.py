"""Metadata that pyproject.toml cannot contain: addresses, and README with absolute links.

A package index shows README without the files around it, so every link into this repository must be
absolute there. The address is stated once: `repository` in pyproject.toml. While it is empty
the links stay as they are.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# Links within the repository, but not to a heading of the same page.
OWN_LINK = re.compile(r"(?P<picture>!?)(?P<text>\[[^\]]*\])\((?!\w+:|#)(?P<path>[^)\s]+)\)")
# Pictures in HTML.
OWN_PICTURE = re.compile(r'(?P<attribute>\bsrc(?:set)?)="(?!\w+:)(?P<path>[^"]+)"')


class Addresses(MetadataHookInterface):
    """A hook that hatchling calls for every build."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in the fields that pyproject.toml calls dynamic."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository, version = str(self.config["repository"]).rstrip("/"), metadata["version"]
        metadata["urls"] = list_urls(repository, version) if repository else {}
        text = make_links_absolute(readme, repository, version) if repository else readme
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def list_urls(repository: str, version: str) -> dict[str, str]:
    """Return the addresses, by names for which package indexes have icons."""
    return {
        "Homepage": repository,
        "Documentation": f"{repository}/blob/v{version}/docs/index.md",
        "Changelog": f"{repository}/blob/v{version}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def make_links_absolute(markdown: str, repository: str, version: str) -> str:
    """Let every link and picture of the repository lead to its address at this version."""

    def expand(link: re.Match[str]) -> str:
        kind = "raw" if link["picture"] else "blob"
        return f"{link['picture']}{link['text']}({repository}/{kind}/v{version}/{link['path']})"

    links = OWN_LINK.sub(expand, markdown)
    return OWN_PICTURE.sub(rf'\g<attribute>="{repository}/raw/v{version}/\g<path>"', links)
