"""The site is built from the pages without a warning, and a reader finds every page of it."""

import json
import os
import re
import shutil
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


def test_what_is_shown_can_be_pasted(site):
    """Options keep their hyphens, code its quotes, and each page has the buttons that copy."""
    for page in PAGES:
        text = (site / page).read_text(encoding="utf-8")
        assert 'src="' in text
        assert "copy.js" in text
    page = (site / "cli.html").read_text(encoding="utf-8")
    assert "--labels" in page
    assert re.findall(r"[–“”’]\w", re.sub(r"<title>.*?</title>", "", page)) == []  # noqa: RUF001 - what Sphinx makes of them


def test_the_first_page_shows_the_report_and_the_goals(site):
    """The picture is there for each theme, and each card leads to a page."""
    page = (site / "index.html").read_text(encoding="utf-8")
    for theme in ("light", "dark"):
        image = re.search(rf'<img [^>]*class="only-{theme}"[^>]*src="([^"]+)"', page)
        assert image
        assert (site / image[1]).is_file()
    cards = re.search(r'<div class="cards[^"]*">(.*?)</div>', page, re.DOTALL)
    assert cards
    linked = re.findall(r'<li><p><strong><a class="reference internal" href="([^"#]+)"', cards[1])
    assert len(linked) == 5
    assert [name for name in linked if not (site / name).is_file()] == []


@pytest.mark.parametrize(
    ("words", "page"),
    [("resample", "recipes/sound.html"), ("resume", "faults-and-resume.html"), ("s3", "object-stores.html")],
)
def test_the_search_finds_the_page_on_a_subject_first(site, tmp_path, words, page):
    """What people look for by one word is the first result."""
    chromium = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    look = ["--allow-file-access-from-files", "--virtual-time-budget=10000", "--dump-dom"]
    address = f"{(site / 'search.html').as_uri()}?q={words}"
    done = subprocess.run([*chromium, *look, address], capture_output=True, text=True, check=True)
    results = re.search(r'id="search-results">.*?<ul.*?</ul>', done.stdout, re.DOTALL)
    assert results
    found = re.findall(r'<li[^>]*><a href="([^"?#]+)', results[0])
    assert found
    assert found[0] == page, found


def test_the_buttons_copy_what_is_to_be_typed():
    """Of a session, the commands without prompts and output; of a script, everything."""
    if not shutil.which("node"):
        pytest.skip("needs node")
    cases = {
        "$ echo one \\\n>   two\none two\n$ ls\na\n": "echo one \\\n  two\nls\n",
        ">>> for x in y:\n...     print(x)\n...\n1\n>>> x\n": "for x in y:\n    print(x)\n\nx\n",
        "python3 -m venv .venv\n": "python3 -m venv .venv\n",
    }
    program = "globalThis.addEventListener = () => {};" + (DOCS / "site" / "copy.js").read_text(
        encoding="utf-8"
    )
    program += f"process.stdout.write(JSON.stringify({json.dumps(list(cases))}.map(typed)))"
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == list(cases.values())
