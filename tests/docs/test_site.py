"""The site is built from the pages without a warning, and a reader finds every page of it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
# what of docs/ is a page; the notebook is one too
PAGES = sorted(path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.[mi][dp]*"))


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, as a strict build makes it."""
    folder = tmp_path_factory.mktemp("site")
    doctrees = tmp_path_factory.mktemp("doctrees")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", doctrees, DOCS, folder],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_every_page_is_in_the_navigation(site):
    """From the first page the navigation leads to each of the others, once."""
    first = (site / "index.html").read_text(encoding="utf-8")
    navigation = re.search(r'<div class="sidebar-tree">(.*?)</div>', first, re.DOTALL)
    assert navigation
    linked = re.findall(r'<a class="reference internal" href="([^"#]+)"', navigation[1])
    assert sorted(linked) == [str(page) for page in PAGES if str(page) != "index.html"]


def test_files_of_examples_carry_their_names(site):
    """A block that is a file says so above it, as the fence does on GitHub."""
    page = (site / "quick-start.html").read_text(encoding="utf-8")
    assert re.search(r'<div class="code-block-caption">.*lines\.py', page)
