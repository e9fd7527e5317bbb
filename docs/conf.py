"""The site made of these pages: `sphinx-build -W docs SITE`.

The pages are plain Markdown, to be read on GitHub as they are; what only the site needs stands here.
"""

import json
import re
from collections.abc import Sequence

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

NAVIGATION = {
    "Tutorial": [
        "install",
        "tutorial/first-hour",
        "tutorial/your-own-recipe",
        "tutorial/shards-and-training",
        "tutorial/a-cluster",
        "tutorial/podcasts-to-corpus",
    ],
    "Recipes": [
        "quick-start",
        *(
            f"recipes/{name}"
            for name in (
                *("sound", "chunk", "silence", "pauses", "speech", "segments", "spectrogram"),
                *("command", "copy", "words"),
            )
        ),
        "transcribe",
    ],
    "How to run": [
        "dataset-lists",
        "inputs-from",
        "dataset-objects",
        "shards-as-input",
        "object-stores",
        "faults-and-resume",
        "batches-and-parallelism",
        "pipelines",
        "ray",
        "slurm",
        "completion",
    ],
    "How to see and trust it": ["plan", "measures", "report", "verify"],
    "How to train": [
        "notebook",
        "shards",
        "virtual",
        "open",
        "export",
        "train-with",
        "webdataset",
        "hugging-face",
        "ray-data",
        "tar",
    ],
    "Reference": ["cli", "the-class", "manifest", "api", "agents"],
    "Background": ["design", "performance", "comparison"],
}

project = "splitter"
author = "the splitter authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown", ".ipynb": "notebook"}
html_theme = "furo"
html_title = "splitter"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
# options and code are to be pasted as they are
smartquotes = False
html_show_sphinx = False
html_copy_source = False
html_show_copyright = False
myst_heading_anchors = 4
nitpicky = True

OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./(tests/[^)]+)\)")
PICTURE = re.compile(
    r'<picture>.*?srcset="([^"]+)".*?<img alt="([^"]*)" src="([^"]+)">\n</picture>', re.DOTALL
)
CARDS = re.compile(r"^<!-- cards -->\n(.*?)\n\n", re.MULTILINE | re.DOTALL)
FILE_BLOCK = re.compile(r"^```(\w+) file=(\S+)$", re.MULTILINE)


class NotebookParser(MystParser):
    """Reads a notebook: its texts, and its code with what that printed."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse a notebook as the Markdown page that it would be."""
        cells = json.loads(inputstring)["cells"]
        super().parse("\n\n".join(block for cell in cells for block in shown(cell)), document)


def shown(cell: dict[str, object]) -> list[str]:
    """A cell of a notebook as Markdown."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    outputs = [output.get("text") or output["data"]["text/plain"] for output in cell["outputs"]]
    return [f"```python\n{source}\n```", *(f"```text\n{''.join(text)}\n```" for text in outputs)]


def for_the_site(_app: Sphinx, page: str, source: list[str]) -> None:
    """Give files names, pictures a theme, and the first page the navigation; links stay on the site."""
    source[0] = OUTSIDE.sub(r"\1 (`\2`)", source[0])
    source[0] = PICTURE.sub(for_each_theme, source[0])
    source[0] = CARDS.sub(r"```{container} cards\n\1\n```\n\n", source[0])
    source[0] = FILE_BLOCK.sub(r"```{code-block} \1\n:caption: \2\n", source[0])
    if page == "index":
        source[0] += "".join(tree(title, pages) for title, pages in NAVIGATION.items())


def for_each_theme(picture: re.Match[str]) -> str:
    """A picture of GitHub's, as two images of which the theme shows one."""
    dark, text, light = picture.groups()
    images = ((light, "only-light"), (dark, "only-dark"))
    return "\n\n".join(f"```{{image}} {name}\n:alt: {text}\n:class: {theme}\n```" for name, theme in images)


def tree(title: str, pages: Sequence[str]) -> str:
    """One section of the navigation."""
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""])


def setup(app: Sphinx) -> None:
    """Connect what stands above with Sphinx."""
    app.add_source_parser(NotebookParser)
    app.add_lexer("csv", TextLexer)
    app.connect("source-read", for_the_site)
