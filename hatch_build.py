"""Metadata of the package that depends on the URL of the repository, which only pyproject.toml contains."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(
    r"(?P<code>^```.*?^```|`[^`\n]*`)"
    r'|(?P<start>\]\(|(?:src|href)="|^\[[^\]]+\]:\s+)(?!https?://|#|mailto:)(?P<target>[^)"\s]+)',
    re.MULTILINE | re.DOTALL,
)
"""Code, or start and target of a relative link or picture, in Markdown or HTML."""

PICTURES = (".png", ".gif", ".svg")


class RepositoryUrls(MetadataHookInterface):
    """Sets the URLs of the project and its description, the README with absolute links."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``urls`` and ``readme``, the dynamic fields of pyproject.toml."""
        repository = self.config["repository"].rstrip("/")
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(readme, repository),
        }
        metadata["urls"] = {
            "Repository": repository,
            "Documentation": f"{repository}/blob/main/docs/index.md",
            "Changelog": f"{repository}/blob/main/CHANGELOG.md",
            "Issues": f"{repository}/issues",
        }


def with_absolute_links(text: str, repository: str) -> str:
    """Return a Markdown text with URLs in the repository in the place of relative links."""

    def absolute(match: re.Match[str]) -> str:
        if match["code"]:
            return match["code"]
        kind = "raw" if match["target"].partition("#")[0].endswith(PICTURES) else "blob"
        return f"{match['start']}{repository}/{kind}/main/{match['target']}"

    return LINK.sub(absolute, text)
