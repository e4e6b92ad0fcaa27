"""How Sphinx builds the site: Markdown pages, and a reference from docstrings and --help."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import sottovoce

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path.append(str(HERE / "_ext"))

project = "sottovoce"
copyright = "the sottovoce authors, Apache-2.0"  # noqa: A001 -- Sphinx's name
version = release = sottovoce.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "commands"]
html_theme = "furo"
html_title = f"sottovoce {version}"
html_show_sourcelink = False
# Links of the present pages name headings as GitHub does.
myst_heading_anchors = 4
# Docstrings write `name` for code.
default_role = "code"
autoclass_content = "both"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80

ELSEWHERE = {
    "CONTRIBUTING.md": "contributing.md",
    "web/client/README.md": "reference/browser.md",
    "web/widget/README.md": "reference/widget.md",
    "lab/docs/": "lab/",
    "docs/": "",
}
"""Places outside of this folder, from the root, that the site has as pages."""
shutil.rmtree(HERE / "lab", ignore_errors=True)
shutil.copytree(HERE.parent / "lab/docs", HERE / "lab")  # Sphinx reads one folder


def link_to_pages(_app: Sphinx, _page: str, content: list[str]) -> None:
    """On GitHub a link leads to the file, on the site to its page."""
    for place, page in ELSEWHERE.items():
        content[0] = re.sub(rf"\]\((\.\./)+{re.escape(place)}", f"](/{page}", content[0])


def setup(app: Sphinx) -> None:
    app.connect("source-read", link_to_pages)
