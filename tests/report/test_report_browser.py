"""The page in a real browser: it loads, filters, plays, shows failures; by keyboard and on a phone, too."""

import base64
import struct
import zlib
from urllib.parse import unquote, urlsplit

import pytest
from doors import program, read_table, write_files
from report_pages import HOSTILE, needs_chromium, write_manifest
from written_shards import as_shards

import splitter

pytestmark = needs_chromium
ROWS = "#body .row"
PLAYER = "browser.chosen.player"
RIGHT, ENTER, SHIFT = "\ue014", "\ue007", "\ue008"


def png(width: int, height: int) -> bytes:
    """A grey picture."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    lines = b"".join(b"\0" + b"\x80" * width for _ in range(height))
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(lines)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", ["speech_output", "troubled_output"])
def test_it_loads_without_a_complaint(chromium, request, theme, page):
    """No console message, nothing asked for from anywhere, plots and rows drawn, in both themes."""
    output = request.getfixturevalue(page)
    chromium.wear(theme)
    chromium.open(output / "report.html")
    chromium.click(ROWS)
    assert chromium.complaints() == []
    assert chromium.value("performance.getEntriesByType('resource').map((one) => one.name)") == []
    assert chromium.value("document.querySelectorAll('.chart canvas').length") >= 2
    assert chromium.value("document.querySelectorAll('#body .wave').length") > 0
    paper = chromium.value("getComputedStyle(document.body).backgroundColor")
    assert is_dark(paper) == (theme == "dark")
    colours = chromium.run(
        "return Object.fromEntries(arguments[0].map((name) => [name, style(`--${name}`)]))",
        sorted({name for pair in (*TEXT_ON, *SHAPE_ON) for name in pair}),
    )
    for least, pairs in ((4.5, TEXT_ON), (3, SHAPE_ON)):
        for one, other in pairs:
            assert contrast(colours[one], colours[other]) >= least, (one, other)
    # the first click is seen, whatever the system has
    chromium.click("#theme")
    assert is_dark(chromium.value("getComputedStyle(document.body).backgroundColor")) == (theme != "dark")


TEXT_ON = (
    *((text, on) for text in ("ink", "muted") for on in ("paper", "card", "hover", "accent-soft")),
    *(("accent", "card"), ("accent", "accent-soft"), ("on-accent", "accent"), ("warn", "accent-soft")),
    *(("bad", on) for on in ("paper", "card", "bad-soft", "hover", "accent-soft")),
)
SHAPE_ON = (("edge", "paper"), ("edge", "card"), *((f"split-{number}", "card") for number in range(6)))


def is_dark(colour):
    return sum(map(int, colour.strip("rgb()").split(","))) < 380


def contrast(one, other):
    """As the Web Content Accessibility Guidelines have it."""

    def light(colour):
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((light(one), light(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_it_loads_nothing_from_elsewhere(chromium, speech_output):
    """The policy in the page holds: not even a script that got into it could call home."""
    chromium.open(speech_output / "report.html")
    script = "fetch(arguments[0]).then(() => arguments[1]('loaded'), () => arguments[1]('refused'))"
    assert chromium.driver.execute_async_script(script, "http://127.0.0.1:9/") == "refused"
    assert "Content Security Policy" in chromium.complaints()[0]


def test_rows_are_filtered(chromium, speech_output):
    """By text in any column, by a label, by a range of a plot: always as many as the manifest has."""
    manifest = splitter.read_manifest(speech_output)
    chromium.open(speech_output / "report.html")
    assert chromium.texts("#shown") == [f"{len(manifest)} rows"]
    chromium.find("#search").send_keys("MONTRÉAL")
    french = manifest["input"].str.contains("Montr").sum()
    chromium.wait(f"document.querySelector('#shown').textContent === '{french} of {len(manifest)} rows'")
    assert len(chromium.texts(ROWS)) == french
    chromium.run("browser.clear()")
    chromium.click('.labels[data-column="language"] button[data-value="en-US"]')
    american = (manifest["language"] == "en-US").sum()
    assert chromium.texts("#shown") == [f"{american} of {len(manifest)} rows"]
    chromium.click('.labels[data-column="language"] button[data-value="en-US"]')
    assert chromium.texts("#shown") == [f"{len(manifest)} rows"]
    plot = chromium.value("histograms[0].plot")
    chromium.click(".chart .u-over")
    low, high = chromium.value("(({low, high}) => [low, high])([...browser.filter.ranges.values()][0])")
    bar = plot["edges"].index(low)
    assert (plot["edges"][bar + 1], plot["counts"][bar]) == (high, chromium.value("browser.view.length"))
    _drag(chromium, ".chart .u-over", 0.0, 0.45)
    short = manifest["frames"] / manifest["sample_rate"]
    low, high = chromium.value("(({low, high}) => [low, high])([...browser.filter.ranges.values()][0])")
    assert chromium.texts("#shown") == [f"{short.between(low, high).sum()} of {len(manifest)} rows"]
    assert 0 < short.between(low, high).sum() < len(manifest)
    chromium.click(".chip")
    assert chromium.texts("#shown") == [f"{len(manifest)} rows"]
    # the same by keyboard: the third bar and the fourth; what they count is what they lead to
    chromium.run("document.querySelectorAll('.chart')[3].focus()")
    chromium.keys(RIGHT, RIGHT, RIGHT)
    _with_shift(chromium, RIGHT)
    plot = chromium.value("histograms[3].plot")
    wanted = sum(plot["counts"][2:4])
    assert chromium.texts(".told")[3].endswith(f": {wanted}")
    chromium.keys(ENTER)
    assert chromium.texts("#shown") == [f"{wanted} of {len(manifest)} rows"]
    silences = chromium.value("browser.view.map((row) => browser.rows.level('silence', row))")
    assert all(plot["edges"][2] <= one < plot["edges"][4] for one in silences)


def _with_shift(chromium, *keys):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(chromium.driver).key_down(SHIFT).send_keys(*keys).key_up(SHIFT).perform()


def _drag(chromium, selector, start, stop):
    from selenium.webdriver.common.action_chains import ActionChains

    element = chromium.find(selector)
    chromium.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
    width = element.size["width"]
    at, by = round(width * (start - 0.5)) + 1, round(width * (stop - start))
    drag = ActionChains(chromium.driver).move_to_element_with_offset(element, at, 0).click_and_hold()
    drag.move_by_offset(by // 2, 0).move_by_offset(by - by // 2, 0).release().perform()


def test_rows_are_sorted(chromium, speech_output):
    """By a click on the head of a column, one way and the other, and back."""
    manifest = splitter.read_manifest(speech_output)
    sizes = (manifest["frames"] / manifest["sample_rate"]).round(2)
    chromium.open(speech_output / "report.html")
    length = "[...document.querySelectorAll('#head .cell')].findIndex((one) => one.textContent === 'Length')"
    at = chromium.value(length)
    head = f"#head .cell:nth-child({at + 1})"
    chromium.click(f"{head} button")
    assert chromium.find(head).get_attribute("aria-sort") == "ascending"
    shown = [float(text) for text in chromium.texts(f"{ROWS} .cell:nth-child({at + 1})")]
    assert shown == sorted(sizes)[: len(shown)]
    chromium.click(f"{head} button")
    shown = [float(text) for text in chromium.texts(f"{ROWS} .cell:nth-child({at + 1})")]
    assert shown == sorted(sizes, reverse=True)[: len(shown)]
    assert chromium.value(f"document.querySelector('{head} button').tabIndex") == 0
    chromium.find(f"{head} button").send_keys(ENTER)
    assert chromium.find(head).get_attribute("aria-sort") == "none"


def test_from_a_disk_it_plays_the_output_itself(chromium, speech_output):
    """Not the copy in the page: the file that the row names, from its start to its true length."""
    row = read_table(speech_output / "manifest.csv")[0]
    chromium.open(speech_output / "report.html")
    chromium.click(f"{ROWS} .play")
    chromium.wait(f"{PLAYER}.isPlaying && {PLAYER}.audio.currentTime > 0.05")
    assert chromium.value(f"{PLAYER}.audio.src").endswith(f"/outputs/{row['output']}")
    length = int(row["frames"]) / int(row["sample_rate"])
    assert chromium.value(f"{PLAYER}.audio.duration") == pytest.approx(length, abs=0.05)
    assert chromium.texts(".main-play") == ["Pause"]
    chromium.keys(" ")
    chromium.wait(f"!{PLAYER}.isPlaying")
    at = chromium.value(f"{PLAYER}.audio.currentTime")
    chromium.keys(RIGHT)
    assert chromium.value(f"{PLAYER}.audio.currentTime") == pytest.approx(at + 1, abs=0.1)
    assert chromium.complaints() == []


def test_what_the_browser_cannot_play_is_played_from_its_copy(chromium, speech_output):
    """No browser plays AIFF, and a file may be gone; the page has a small copy of either, and says so."""
    chromium.open(speech_output / "report.html")
    _choose(chromium, "interview/000000")
    chromium.click(".main-play")
    chromium.wait(f"{PLAYER}.isPlaying && {PLAYER}.audio.currentTime > 0.05")
    assert chromium.value(f"{PLAYER}.audio.src").startswith("data:audio/mpeg")
    assert "copy in this page" in chromium.texts(".sound-note")[0]


def _choose(chromium, name):
    """Choose the row of an output by a part of its name."""
    chromium.run(
        "const row = [...Array(browser.rows.count).keys()].find((row) => browser.rows.name(row).includes("
        "arguments[0])); browser.reveal(row)",
        name,
    )


def test_a_spectrogram_is_drawn_on_demand(chromium, speech_output, serving):
    """From a disk of the copy in the page, from a server of the output itself: energy where speech has it."""
    drawn = "document.querySelector('.spectrogram')?.dataset.row"
    power = (
        "(() => { const canvas = document.querySelector('.spectrogram');"
        "const [w, h] = [canvas.width, canvas.height];"
        "const mean = (y) => canvas.getContext('2d').getImageData(0, y, w, h >> 3).data"
        ".reduce((sum, one, at) => sum + (at % 4 === 3 ? 0 : one), 0);"
        "return [mean(h - (h >> 3)), mean(0)]; })()"
    )
    chromium.open(speech_output / "report.html")
    _choose(chromium, "lecture/000001")
    chromium.keys("s")
    chromium.wait(drawn)
    low, high = chromium.value(power)
    assert low > 1.5 * high
    assert "copy" in chromium.texts(".sound-note")[0]
    with serving(speech_output) as server:
        chromium.open(server.url)
        _choose(chromium, "lecture/000001")
        chromium.click(".sound .buttons button:nth-child(2)")
        chromium.wait(drawn)
        low, high = chromium.value(power)
        assert low > 1.5 * high
        assert chromium.texts(".sound-note") == [""]


def test_the_strip_shows_all_pieces_of_the_recording(chromium, speech_output):
    """Each output is at its place, overlapping ones below each other, the labels too; a click chooses one."""
    rows = [row for row in read_table(speech_output / "manifest.csv") if row["input"].endswith("podcast.mp3")]
    chromium.open(speech_output / "report.html")
    _choose(chromium, "podcast/000003")
    places = chromium.run(
        "return [...document.querySelectorAll('.strip.whole .piece')].map(({style}) => "
        "[parseFloat(style.left), parseFloat(style.width), style.top])"
    )
    length = float(rows[0]["source_seconds"])
    assert len(places) == len(rows)
    for (left, width, _), row in zip(places, rows, strict=True):
        start, end = float(row["start_seconds"]), float(row["end_seconds"])
        assert left == pytest.approx(100 * start / length, abs=0.01)
        assert width == pytest.approx(100 * (end - start) / length, abs=0.01)
    assert {top for _, _, top in places} == {"0px", "9px"}
    assert chromium.texts(".strip.whole .mark") == ["intro", "cut word"]
    chromium.click(".strip.whole .piece:nth-child(6)")
    assert chromium.texts(".inspector h3") == [rows[5]["output"].rpartition("/")[2]]


def test_the_share_of_sound_that_is_kept(chromium, speech_output):
    """The length of all pieces, of what was recorded: overlaps count twice, each recording once."""
    rows = read_table(speech_output / "manifest.csv")
    recorded = sum({row["input"]: float(row["source_seconds"]) for row in rows}.values())
    kept = sum(int(row["frames"]) / int(row["sample_rate"]) for row in rows if row["output"])
    chromium.open(speech_output / "report.html")
    numbers = chromium.value("[...document.querySelectorAll('#numbers div')].map((one) => one.textContent)")
    (shown,) = [text for text in numbers if text.startswith("kept")]
    assert shown == f"kept{100 * kept / recorded:.0f} %of {chromium.value(f'brief({recorded})')} recorded"


def test_the_strip_of_a_long_recording_shows_all_of_it(chromium, tmp_path):
    """Ten hours in 3,600 pieces, with a gap: they are one shape, in which a click chooses what is there."""
    (tmp_path / "out").mkdir()
    header = ["input", "label", "output", "size", "checksum", "start_seconds", "end_seconds"]
    rows = [
        ["day.wav", "ab"[n % 2], f"day/{n}.wav", 9, "", 10 * n, 10 * n + 10]
        for n in range(3600)
        if n // 400 != 1
    ]
    write_manifest(tmp_path / "out", header, rows)
    assert program("report", tmp_path / "out", "--sample=0").code == 0
    chromium.open(tmp_path / "out" / "report.html")
    chromium.run("browser.reveal(2000)")
    assert chromium.texts(".recording .path") == ["day.wav · 10:00:00 h · 3,200 outputs"]
    shape = chromium.value("document.querySelector('.strip.whole .pieces path').getAttribute('d')")
    assert [part.split("V")[0] for part in shape.split("M")[1:]] == [
        "0.00 0.00H111.11",
        "222.22 0.00H1000.00",
    ]
    [own] = chromium.value(
        "[...document.querySelectorAll('.strip.whole .piece')].map((one) => one.style.left)"
    )
    assert float(own.rstrip("%")) == pytest.approx(100 * 2400 / 3600, abs=0.01)
    box = chromium.find(".strip.whole .lanes")
    chromium.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", box)
    box.click()
    assert chromium.value("browser.rows.span(browser.selected)[0]") == pytest.approx(18000, abs=200)
    assert chromium.complaints() == []


@pytest.mark.parametrize("options", [[], ["--sources"]])
def test_served_cuts_are_heard_from_what_is_served(chromium, speech_output, serving, options):
    """From the recording if it is served; if not, from the outputs on both sides, one after the other."""
    with serving(speech_output, *options) as server:
        chromium.open(server.url)
        _choose(chromium, "lecture/000001")
        chromium.click(".recording .buttons button")
        chromium.wait(f"{PLAYER}.isPlaying")
        first = chromium.value(f"{PLAYER}.audio.src")
        if options:
            assert first == f"{server.url}.sources/speech/lecture.flac"
            return
        assert "/lecture/000000_0.000s.flac" in first
        chromium.wait(f"{PLAYER}.isPlaying && {PLAYER}.audio.src.includes('/lecture/000001_')")
        chromium.wait("document.querySelector('.sound-note').textContent.includes('both sides')")
        assert chromium.complaints() == []


def test_cuts_are_heard_in_the_recording(chromium, speech_output):
    """A second before to a second after, from the source recording beside the outputs."""
    chromium.open(speech_output / "report.html")
    _choose(chromium, "lecture/000001")
    chromium.click(".recording .buttons button")
    chromium.wait(f"{PLAYER}.isPlaying && {PLAYER}.what === 'source'")
    assert chromium.value(f"{PLAYER}.audio.src").endswith("/data_samples/speech/lecture.flac")
    assert 1.9 < chromium.value(f"{PLAYER}.audio.currentTime") < 4
    chromium.wait(f"!{PLAYER}.isPlaying")
    assert chromium.value(f"{PLAYER}.audio.currentTime") == pytest.approx(4, abs=0.3)


def test_failures_are_opened(chromium, troubled_output):
    """By their cause with all inputs, each leads to its row; `f` goes from one to the next."""
    chromium.open(troubled_output / "report.html")
    assert chromium.texts(".cause summary b") == ["AudioError", "UnreadableInput"]
    chromium.click(".cause:nth-child(2) summary")
    assert chromium.texts(".cause[open] .inputs li") == ["lost-0.wav", "lost-1.wav"]
    chromium.click(".cause[open] .inputs li:nth-child(2) button")
    assert chromium.texts(".inspector h3") == ["lost-1.wav"]
    assert "lost-1.wav: does not exist" in chromium.texts(".inspector .message")[0]
    chromium.keys("f")
    assert chromium.texts(".inspector h3") == ["text-0.mp3"]
    chromium.run("document.querySelector('#status').value = 'failed'")
    chromium.run("document.querySelector('#status').dispatchEvent(new Event('change'))")
    assert chromium.texts("#shown") == ["5 of 17 rows"]
    # the cause is found too, and a label says how many of its rows are failures
    chromium.find("#search").send_keys("UNREADABLEinput")
    chromium.wait("document.querySelector('#shown').textContent === '2 of 17 rows'")
    chromium.run("browser.clear(); browser.toggleLabel('label', 'yes')")
    assert chromium.texts("#shown") == ["9 of 17 rows, 3 failed"]
    assert chromium.complaints() == []


def test_markup_in_labels_stays_text(chromium, troubled_output):
    """It is shown as it was written, and makes nothing."""
    chromium.open(troubled_output / "report.html")
    chromium.run("browser.select(4)")
    assert chromium.value("document.title") == "outputs · splitter report"
    assert chromium.value("document.images.length") == 0
    assert HOSTILE in chromium.texts(".inspector dd")
    assert HOSTILE in chromium.texts('.labels[data-column="label"] .value')
    chromium.click(f"{ROWS}:nth-child(5) .play")
    chromium.wait(f"{PLAYER}.audio.currentTime > 0.01")
    assert chromium.value(f"{PLAYER}.audio.src").startswith("file://")
    # a recording that is listed with its whole path
    chromium.run("browser.reveal(7)")
    chromium.click(".recording .buttons button:last-child")
    chromium.wait(f"{PLAYER}.isPlaying && {PLAYER}.what === 'source'")
    assert unquote(urlsplit(chromium.value(f"{PLAYER}.audio.src")).path).endswith("/in/talk 2#?%41.wav")
    assert chromium.complaints() == []


def test_everything_is_there_for_the_keyboard(chromium, speech_output):
    """Search, choose, play, close, and move through the table as through a list."""
    chromium.open(speech_output / "report.html")
    chromium.keys("/")
    assert chromium.value("document.activeElement.id") == "search"
    chromium.keys("podcast")
    chromium.wait("browser.view.length < browser.rows.count")
    chromium.keys("\ue00c")
    chromium.wait("browser.view.length === browser.rows.count")
    chromium.keys("\ue00c", "j", "j", "j", "k")
    assert chromium.value("browser.selected") == 1
    chromium.run("document.querySelector('#table').focus()")
    chromium.keys("\ue015", "\ue010")
    assert chromium.value("browser.selected") == chromium.value("browser.rows.count - 1")
    active = chromium.find("#table").get_attribute("aria-activedescendant")
    assert chromium.find(f"#{active}").get_attribute("aria-selected") == "true"
    chromium.keys("\ue011", "\ue007")
    chromium.wait(f"{PLAYER}.isPlaying")
    chromium.keys("\ue00c")
    assert not chromium.find("#inspector").is_displayed()
    assert not chromium.value(f"{PLAYER}.isPlaying")


@pytest.mark.parametrize("width", [360, 375, 500, 700, 900, 1200])
def test_numbers_stay_in_their_places(chromium, speech_output, width):
    """Also long ones: half an hour is written longer than ten hours."""
    chromium.wear("light", width, 740)
    chromium.open(speech_output / "report.html")
    numbers = "[...document.querySelectorAll('.numbers dd:not(.more), .bars .number:last-child')]"
    assert chromium.value(f"{numbers}.length") > 20
    chromium.run(f"for (const one of {numbers}) one.textContent = '29:06 min'")
    assert chromium.value(f"{numbers}.filter((one) => one.scrollWidth > one.clientWidth).length") == 0
    assert chromium.value("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [360, 800, 1200])
def test_it_fits_a_phone(chromium, speech_output, width):
    """Nothing is wider than the screen; what is told of a row covers the lower part, but not the row."""
    chromium.wear("light", width, 740)
    chromium.open(speech_output / "report.html")
    assert chromium.value("document.documentElement.scrollWidth") <= width
    texts = "[...document.querySelectorAll('.told, .labels .value, .pick small')]"
    assert chromium.value(f"{texts}.filter((one) => one.scrollWidth > one.clientWidth).length") == 0
    if width > 1080:
        return
    chromium.run("browser.select(3)")
    assert chromium.value("document.documentElement.scrollWidth") <= width
    assert chromium.find(".main-play").is_displayed()
    assert chromium.find("#inspector").rect["width"] >= width - 20
    chromium.run("browser.reveal(browser.rows.count - 1)")
    bottom = "document.querySelector('#body [aria-selected=true]').getBoundingClientRect().bottom"
    assert chromium.value(bottom) <= chromium.value(
        "document.querySelector('#inspector').getBoundingClientRect().top"
    )


def test_it_prints(chromium, speech_output):
    """In light colours, with the first rows of the table, and without what only a screen is good for."""
    chromium.wear("dark")
    chromium.open(speech_output / "report.html")
    for row in ("print-color-adjust", "exact"), ("position", "static"), ("break-inside", "avoid"):
        chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert chromium.value(f"getComputedStyle(document.querySelector('{ROWS}'))['{row[0]}']") == row[1]
    chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    pdf = base64.b64decode(chromium.driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF")
    chromium.run("dispatchEvent(new Event('beforeprint'))")
    assert len(chromium.texts(ROWS)) == min(40, chromium.value("browser.rows.count"))
    assert chromium.value("document.documentElement.dataset.theme") == "light"
    chromium.run("dispatchEvent(new Event('afterprint'))")
    assert chromium.value("document.documentElement.dataset.theme ?? ''") == ""
    # the gallery is printed as one, four tiles wide, and stays
    chromium.click("#as-gallery")
    chromium.run("dispatchEvent(new Event('beforeprint'))")
    assert len(chromium.texts(".tile")) == chromium.value("browser.rows.count") <= 40
    chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    lefts = "[...document.querySelectorAll('.tile')].map((one) => one.getBoundingClientRect().left)"
    assert len({*chromium.value(lefts)}) == 4
    chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    chromium.run("dispatchEvent(new Event('afterprint'))")
    assert chromium.value("Boolean(browser.gallery)")


def test_a_hundred_thousand_rows_are_usable(chromium, many_output):
    """Only what is seen is drawn; the last row can be reached; search and sort work; it says what is read."""
    chromium.open(many_output / "report.html")
    assert chromium.texts("#shown") == ["100,000 rows"]
    assert "300 of the 100,000 outputs" in chromium.texts("#scope")[0]
    assert len(chromium.texts(ROWS)) < 60
    chromium.run("document.querySelector('#table').scrollTop = 1e9")
    chromium.wait(
        "[...document.querySelectorAll('#body small')].some((one) => one.textContent === '00999.wav')"
    )
    chromium.find("#search").send_keys("00123.wav")
    chromium.wait("document.querySelector('#shown').textContent === '100 of 100,000 rows'")
    chromium.run("browser.clear(); browser.sortBy('#rms_db')")
    loudest = chromium.value("browser.rows.level('rms_db', browser.view[0])")
    assert loudest == chromium.value(
        "Math.max(...browser.rows.byName.get('#rms_db').values.filter((one) => one !== null))"
    )
    chromium.click('.labels[data-column="label"] button[data-value="label 3"]')
    assert chromium.value("browser.view.length") in range(9000, 9200)
    assert chromium.texts("#printed") == ["The first 40 of 9,000 rows; manifest.csv has all of them."]
    assert chromium.complaints() == []


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_outputs_in_shards_are_played_by_the_server(chromium, speech_output, tmp_path, kind, serving):
    """The very bytes, out of the shard; from a disk the page plays its copy."""
    listing = write_files(tmp_path, {"list.csv": "input\nspeech/telephone.wav\nspeech/greeting.wav\n"})
    root = speech_output.parent / "data_samples"
    said = program(
        "run", listing / "list.csv", "--root", root, "--seconds=3", "-o", tmp_path / "out", "--quiet"
    )
    assert said.code == 0, said.err
    shards = as_shards(tmp_path / "out", tmp_path / "shards", kind)
    assert program("report", shards).code == 0
    with serving(shards) as server:
        chromium.open(server.url)
        chromium.click(f"{ROWS}:nth-child(3) .play")
        chromium.wait(f"{PLAYER}.isPlaying && {PLAYER}.audio.currentTime > 0.05")
        row = read_table(shards / "manifest.csv")[2]
        assert chromium.value(f"{PLAYER}.audio.src") == f"{server.url}{row['output']}"
        chromium.keys("s")
        chromium.wait("document.querySelector('.spectrogram')?.dataset.row")
        assert chromium.texts(".sound-note") == [""]
        # in the gallery there is a spectrogram of each
        chromium.run("document.querySelector('#table').focus()")
        chromium.keys("g", RIGHT)
        chromium.wait("document.querySelectorAll('.tile canvas').length === browser.rows.count")
        assert chromium.value("browser.selected") == 3
        assert chromium.complaints() == []
        if kind == "tar":
            # as from a bucket, which knows of no members
            script = "browser.sounds.part(2).then((part) => arguments[0]([...new Uint8Array(part)]))"
            loose = read_table(tmp_path / "out" / "manifest.csv")[2]["output"]
            content = bytes(chromium.driver.execute_async_script(script))
            assert content == (tmp_path / "out" / loose).read_bytes()
            _is_fetched_once(chromium)
    chromium.open(shards / "report.html")
    chromium.click(f"{ROWS}:nth-child(3) .play")
    chromium.wait(f"{PLAYER}.isPlaying && {PLAYER}.audio.currentTime > 0.05")
    assert chromium.value(f"{PLAYER}.audio.src").startswith("data:audio/mpeg")


def _is_fetched_once(chromium):
    """However often it is played; of the last outputs that were played a few are kept."""
    chromium.run("browser.sounds.link = () => null; performance.clearResourceTimings()")
    for _ in range(2):
        chromium.run("browser.chosen.playButton.click()")
        chromium.wait(f"{PLAYER}.isPlaying && {PLAYER}.audio.src.startsWith('blob:')")
        chromium.run("browser.chosen.playButton.click()")
        chromium.wait(f"!{PLAYER}.isPlaying")
    fetched = "performance.getEntriesByType('resource').filter((one) => !one.name.startsWith('blob:'))"
    assert chromium.value(f"{fetched}.length") == 1
    chromium.run("window.gone = []; URL.revokeObjectURL = (url) => gone.push(url)")
    chromium.run("browser.sounds.part = async () => new ArrayBuffer(1)")
    chromium.run("for (let row = 100; row < 108; row++) browser.sounds.ways(row)")
    chromium.wait(f"gone.length === 1 && gone[0] === {PLAYER}.audio.src")
    assert chromium.value("inShard.test('shards/shard-1000000.tar/a.wav')")


def test_images_and_texts_are_shown(chromium, tmp_path):
    """In the table and large; a text as it begins."""
    write_files(tmp_path / "in", {"one.png": png(60, 20), "two.txt": "hello <i>there</i>"})
    command = "cp {input} {output}/"
    said = program(
        "run", tmp_path / "in", "--recipe=command", "--command", command, "-o", tmp_path / "out", "--quiet"
    )
    assert said.code == 0, said.err
    assert program("report", tmp_path / "out").code == 0
    chromium.open(tmp_path / "out" / "report.html")
    chromium.wait("document.querySelector('#body img').naturalWidth === 60")
    chromium.click(f"{ROWS}:nth-child(1)")
    chromium.wait("document.querySelector('.picture').naturalWidth === 60")
    assert chromium.value("document.querySelectorAll('#body img').length") == 1
    chromium.find("#search").send_keys("I>there")
    chromium.wait("document.querySelector('#shown').textContent === '1 of 2 rows'")
    chromium.run("browser.clear()")
    chromium.click(f"{ROWS}:nth-child(2)")
    assert chromium.texts(".inspector pre") == ["hello <i>there</i>"]
    chromium.click("#as-gallery")
    chromium.wait("document.querySelector('.tile img').naturalWidth === 60")
    assert chromium.texts(".tile .begins") == ["hello <i>there</i>"]
    assert chromium.complaints() == []
