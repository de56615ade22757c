"""How Sphinx builds the documentation as a site: `make site`.

The pages are those of the repository and some that are written from the code; docs/site/build.py lays all of them into
the build folder, where links between them are already right, and starts Sphinx there with this file. The site needs no
network, neither to be built nor to be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstrings import as_restructured_text, without_annotations

from simulator.version import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project, author = "tcsim", "The tcsim authors"
copyright = "The tcsim authors"
release = version = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
exclude_patterns = ["files/**"]
nb_execution_mode = "off"  # the lessons show the outputs that are checked in
nb_render_markdown_format = "myst"
myst_heading_anchors = 4
default_role = "literal"
smartquotes_action = "D"  # dashes alone: quotation marks stand for what is typed
highlight_language = "text"
templates_path: list[str] = []

suppress_warnings = [
    "misc.highlighting_failure",  # console blocks show part of an output, and ptx is no language of Pygments
]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 100
napoleon_use_ivar = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"tcsim {release}"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False


def setup(app: Sphinx) -> None:
    """Docstrings are plain text with code between backticks; autodoc wants reStructuredText."""
    app.connect("autodoc-process-docstring", as_restructured_text, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", without_annotations)
