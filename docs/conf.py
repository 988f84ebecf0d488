"""How Sphinx makes these pages: `make docs`. Nothing is fetched, neither here nor by the pages."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import perpacket

project = "perpacket"
author = "the perpacket contributors"
copyright = author  # noqa: A001 - Sphinx's name
version = release = perpacket.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "from_code"]
exclude_patterns = ["_build", "from_code"]

myst_heading_anchors = 3
myst_enable_extensions = ["fieldlist"]

# A single backtick in a docstring is code, as in Markdown.
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": False}

smartquotes = False  # options begin with two dashes

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_title = "perpacket"
html_copy_source = False
html_show_sphinx = False
