"""Settings of Sphinx: our Markdown by MyST, which reads it as GitHub does (CommonMark), and the API from docstrings."""

from __future__ import annotations

from html import escape
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

project = "Anabranch"
copyright = "Apache License 2.0"  # noqa: A001 - Sphinx's name
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = [".doctrees"]
root_doc = "index"

myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
suppress_warnings = ["myst.header", "misc.highlighting_failure"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
default_role = "code"
python_maximum_signature_line_length = 88

html_theme = "alabaster"
html_title = "Anabranch"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("mermaid.min.js", {"defer": "defer"}), ("diagrams.js", {"defer": "defer"})]
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
html_theme_options = {
    "description": "One view definition, two paths over the same log, proven equal at the same position",
    "fixed_sidebar": False,
    "page_width": "1200px",
    "sidebar_width": "280px",
}


class Mermaid(SphinxDirective):
    """A diagram, drawn in the browser by the copy of mermaid in ``static`` (npm: @mermaid-js/tiny 11.17.2), as GitHub
    draws it."""

    has_content: ClassVar[bool] = True

    def run(self) -> list[nodes.Node]:
        text = escape("\n".join(self.content))
        return [nodes.raw("", f'<pre class="mermaid">\n{text}\n</pre>', format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("mermaid", Mermaid)
    return {"parallel_read_safe": True}
