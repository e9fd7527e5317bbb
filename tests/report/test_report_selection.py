"""The page in a real browser: rows are marked, and a condition, a list or a link leads to them."""

import csv
import shlex
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from doors import here, write_files, write_list
from report_pages import needs_chromium, write_manifest

from splitter.text.conditions import condition
from splitter.text.labels import join_labels

pytestmark = needs_chromium
ODD = 'it\'s "so" \\ $HOME `x`\nor so!'
SPECIES = ["a|b", "a\\", "a", "b"]
VIEW = "browser.view.map((row) => browser.rows.output.text(row))"
HEADER = [
    *("input", "label", "the kind", "species", "transcript", "output", "size", "checksum"),
    *("labels", "tokens", "sample_rate"),
]


@pytest.fixture(scope="module")
def rows():
    """Sixty texts with labels, three in four without a species, and one with a long name."""
    made = []
    for n in range(60):
        labels = join_labels(one for number, one in enumerate(SPECIES, 2) if n % number == 0)
        species = f"species {n % 3}" if n % 4 == 0 else ""
        text = f"what number {n} says, and not much more"
        name = f"r{n // 6}/{n % 6}{' of 100% #?' if n == 7 else ''}.txt"
        kind = ODD if n % 5 == 0 else f"k{n % 2}"
        rate = [8000, 16000][n % 7 == 0]
        made.append(
            [f"r{n // 6}.wav", "xyz"[n % 3], kind, species, text, name, 9, "", labels, 1000 * n, rate]
        )
    return [dict(zip(HEADER, map(str, row), strict=True)) for row in made]


@pytest.fixture
def page(rows, tmp_path, capfd):
    """The report of these texts."""
    output = tmp_path / "texts"
    write_files(output, {row["output"]: f"text{n}" for n, row in enumerate(rows)})
    write_manifest(output, HEADER, [[*row.values()] for row in rows])
    schema = output / ".splitter" / "schema.json"
    schema.write_text(schema.read_text().replace('"labels": "int"', '"labels": "str"'))
    assert here(capfd, "report", output).code == 0
    return output / "report.html"


FILTERS = {
    "a label": "browser.toggleLabel('label', 'x')",
    "one that hurts": f"browser.toggleLabel('the kind', {ODD!r})",
    "no label": "browser.toggleLabel('species', '')",
    "one of several": "browser.toggleLabel('labels', 'a')",
    "one with a bar": "browser.toggleLabel('labels', 'a|b')",
    "one with a backslash": "browser.toggleLabel('labels', 'a\\\\')",
    "one after a backslash": "browser.toggleLabel('labels', 'b')",
    "a number": "browser.toggleLabel('sample_rate', '16000')",
    "bars": "browser.chooseBars(histograms.find((one) => one.plot.column === 'tokens'), 2, 5)",
    "the last bars, and a label": (
        "const tokens = histograms.find((one) => one.plot.column === 'tokens');"
        "browser.chooseBars(tokens, 3, tokens.plot.edges.length - 2); browser.toggleLabel('label', 'y')"
    ),
    "a search": "document.querySelector('#search').value = browser.filter.text = 'number 1'; browser.apply()",
    "marks": "browser.selection.toggle(50); browser.selection.toggle(7)",
}


def test_a_condition_leads_to_the_rows(chromium, page, rows):
    """Pasted into a shell, `--where` has what was shown or marked, in the language of conditions."""
    chromium.open(page)
    assert chromium.find("#copy-where").get_attribute("disabled")
    for name, script in FILTERS.items():
        chromium.run(f"browser.selection.marked.clear(); browser.clear(); {script}")
        shown = chromium.value(VIEW)
        if name == "marks":
            shown = [rows[7]["output"], rows[50]["output"]]
        chromium.click("#copy-where")
        chromium.wait("document.querySelector('#result code')?.textContent.startsWith('--where')")
        option, text = shlex.split(chromium.texts("#result code")[0])
        holds = condition(text, HEADER)
        found = [row["output"] for row in rows if holds([*row.values()])]
        assert (option, found) == ("--where", shown), name
        assert 0 < len(found) < len(rows), name
        # what a condition can say, it says without naming outputs
        assert ("output in (" in text) == (name in ("a search", "marks")), name
    assert chromium.complaints() == []


def test_rows_without_outputs_are_told_by_their_inputs(chromium, tmp_path, capfd):
    """Those of a run that made metadata only; failures are in no manifest, but can be listed."""
    made = [[name, "x", "", "", "", 1] for name in ("it's.wav", "b.wav", "c.wav")]
    (tmp_path / "out").mkdir()
    write_manifest(tmp_path / "out", ["input", "label", "output", "size", "checksum", "score"], made)
    failed = [
        ["input", "label", "error", "message", "traceback", "attempts"],
        ["d, e.wav", "y", "E", "no", "", 1],
    ]
    write_list(tmp_path / "out" / "errors.csv", failed)
    assert here(capfd, "report", tmp_path / "out").code == 0
    chromium.open(tmp_path / "out" / "report.html")
    chromium.run("browser.selection.toggleAll(); browser.selection.toggle(1)")
    assert chromium.value("browser.selection.condition()") == "input in ('it\\'s.wav', 'c.wav')"
    chromium.run("browser.selection.toggleAll(); browser.selection.toggleAll(); browser.selection.toggle(3)")
    chromium.click("#copy-where")
    assert "save the list" in chromium.texts("#result")[0]
    assert chromium.value("browser.selection.list().text") == 'input,label\n"d, e.wav",y\n'
    assert chromium.complaints() == []


def test_a_list_of_what_is_marked_can_be_run(chromium, page, rows, tmp_path, capfd):
    """Marked with Shift and the keyboard, saved, and given to a run: these outputs with their labels."""
    chromium.driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    chromium.open(page)
    chromium.click("#row-5 input")
    box = chromium.find("#row-8 input")
    chromium.run("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true, shiftKey: true}))", box)
    chromium.run("browser.select(6)")
    chromium.keys("x")
    assert chromium.texts("#marks") == ["3 marked"]
    assert chromium.value("[...document.querySelectorAll('#body input:checked')].length") == 3
    chromium.click("#save-list")
    saved = tmp_path / "texts-selected.csv"
    chromium.wait("document.querySelector('#result').textContent.includes('texts-selected.csv')")
    assert chromium.texts("#result code") == ["splitter run texts-selected.csv --root texts"]
    told = "3 outputs listed in texts-selected.csv. To run over them: "
    assert chromium.texts("#result")[0].startswith(told)
    _wait_for(saved)
    arguments = ("--recipe=words", "--workers=0", "--quiet", "-o", tmp_path / "again")
    said = here(capfd, "run", saved, "--root", page.parent, *arguments)
    assert said.code == 0, said.err
    with (tmp_path / "again" / "manifest.csv").open(newline="") as file:
        again = [*csv.DictReader(file)]
    first = {row["input"]: row for row in again}
    assert [*first] == [rows[n]["output"] for n in (5, 7, 8)]
    for n in (5, 7, 8):
        row = first[rows[n]["output"]]
        assert row["word"] == f"text{n}"
        assert {name: row[name] for name in HEADER[1:5]} == {name: rows[n][name] for name in HEADER[1:5]}
        assert row["from_input"] == rows[n]["input"]
    chromium.click("#unmark")
    assert chromium.value("document.querySelectorAll('#body input:checked').length") == 0
    chromium.click("#head input")
    assert chromium.texts("#marks") == ["60 marked"]


def _wait_for(path: Path) -> None:
    for _ in range(2000):
        if path.exists() and path.stat().st_size:
            return
        time.sleep(0.05)
    raise AssertionError(path)


def test_a_link_shows_the_same_again(chromium, page):
    """Filters, order, gallery and the row that is selected; what it does not know is left out."""
    chromium.open(page)
    chromium.run(
        f"{FILTERS['the last bars, and a label']}; browser.sortBy('tokens'); browser.sortBy('tokens');"
        "browser.showAs(true); browser.select(browser.view[2])"
    )
    shown, selected = chromium.value(VIEW), chromium.value("browser.selected")
    assert 3 < len(shown) < 20
    chromium.click("#copy-link")
    chromium.wait("document.querySelector('#result code')")
    [link] = chromium.texts("#result code")
    # the address of the page is the link, too
    chromium.wait("location.hash.length > 2")
    assert chromium.value("location.href") == link
    chromium.driver.get("about:blank")
    chromium.open(link)
    assert (chromium.value(VIEW), chromium.value("browser.selected")) == (shown, selected)
    assert chromium.value("document.querySelectorAll('.tile').length") > 3
    assert chromium.value(f"document.querySelector('#row-{selected}').ariaSelected") == "true"
    # pasted into the same page
    unknown = "rows=no&label=no&value=no&range=no:1:2&row=no"
    chromium.run(f"location.hash = '#?search={quote('number 1')}&{unknown}'")
    chromium.wait("browser.view.length === 11")
    assert chromium.texts("#shown") == ["11 of 60 rows"]
    assert not chromium.value("Boolean(browser.gallery)")
    assert chromium.complaints() == []


def test_labels_and_texts_can_be_read(chromium, page):
    """Those without a label do not flatten the others; texts are texts; ticks are whole; a phone has all."""
    chromium.open(page)
    species = '.labels[data-column="species"]'
    assert chromium.texts(f"{species} .value") == ["species 0", "species 1", "species 2", "(none)"]
    widths = chromium.value(
        f"[...document.querySelectorAll('{species} .fill')].map((one) => one.style.width)"
    )
    assert widths == ["100%", "100%", "100%", "100%"]
    assert chromium.texts(f"{species} .number:not(.soft)") == ["5", "5", "5", "45"]
    assert "transcript" not in chromium.texts("#label-column option")
    assert chromium.texts("#row-3 .cell.text")[-1] == "what number 3 says, and not much more"
    outside = """
      const context = document.createElement("canvas").getContext("2d");
      context.font = "11px system-ui, sans-serif";
      return histograms.flatMap(({chart, plot}) => !chart ? [] : chart.axes[0]._values.filter((text, at) => {
        const half = context.measureText(text).width / 2, left = chart.over.offsetLeft;
        const middle = left + chart.valToPos(chart.axes[0]._splits[at], "x");
        return middle - half < 0 || middle + half > chart.width;
      }));
    """
    assert chromium.value("histograms.filter((one) => one.chart).length") >= 1
    assert chromium.run(outside) == []
    chromium.keys("?")
    assert chromium.find("#keys").is_displayed()
    chromium.keys("\ue00c")
    assert not chromium.find("#keys").is_displayed()
    chromium.wear("light", 360, 740)
    chromium.wait("document.querySelector('#row-4 .below')")
    assert chromium.texts("#row-4 .below")[0].startswith("y · ")
    chromium.run("browser.select(4)")
    assert chromium.texts(".inspector .spoken") == ["what number 4 says, and not much more"]
    assert chromium.texts(".inspector .shared") == []
    rates = [(0.25, 5), (13, 1), (7200, 3)]
    shown = [chromium.value(f"rateOf({{seconds: {seconds}, inputs: {inputs}}})") for seconds, inputs in rates]
    assert shown == ["20 inputs/s", "4.62 inputs/min", "1.5 inputs/h"]
    assert chromium.complaints() == []
