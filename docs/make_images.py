"""Write the images of README.md and the docs: `python docs/make_images.py` from a checkout.

costs.svg is a chart of figures in performance.md, and a test compares the two. report.png and report-dark.png
are the table of the report of data_samples, as Chromium shows it: `python docs/make_images.py report`.
"""

import base64
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parent
IMAGES = DOCS / "images"

# -- the chart ----------------------------------------------------------------------------------------------

WIDTH, LEFT, RIGHT, ROW = 760, 150, 60, 24
STYLE = """\
text { font: 14px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; }
.small { font-size: 12px; fill: #59636e; }
.own { font-weight: 600; }
rect { fill: #afb8c1; }
rect.own { fill: #0969da; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .small { fill: #9198a1; }
  rect { fill: #59636e; }
  rect.own { fill: #4493f8; }
}"""
# the beginning of a table's header, and the title of its part of the chart
CHARTED = {
    "| WAV, 10 min stereo 44.1 kHz, in 10 s WAV |": "WAV (44.1 kHz, stereo) into 10-second WAV",
    "| WAV, 44.1 kHz stereo, in 10 s FLAC of 16 kHz mono |": "the same into 10-second FLAC, 16 kHz mono",
}
PEERS = ("splitter", "soundfile and `Pool`", "sox", "ffmpeg", "lhotse")


def costs(header: str) -> dict[str, str]:
    """Seconds for one more hour of sound, from a table of performance.md.

    If the table ends with an earlier round, which had other contenders, only that one is taken.
    """
    text = (DOCS / "performance.md").read_text(encoding="utf-8")
    table = text[text.index(header) :].partition("\n\n")[0]
    found: dict[str, str] = {}
    for line in table.splitlines()[2:]:
        name, value, *_ = (cell.replace("*", "").strip() for cell in line.strip("|").split("|"))
        if not value:
            found = {}
        elif name in PEERS:
            found[name.replace("`", "")] = value.partition(" ")[0]
    return found


def chart() -> str:
    """The chart of costs, as SVG."""
    parts, top = [], 34
    for header, title in CHARTED.items():
        rows = costs(header)
        parts.append(f'<text class="title" x="0" y="{top}">{escape(title)}</text>')
        parts += bars(rows, top + 12)
        top += 12 + ROW * len(rows) + 36
    label = "Seconds that one more hour of sound takes on two CPUs; shorter is better"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top - 16}" width="{WIDTH}"',
            f' role="img" aria-label="{label}">',
            f"<style>\n{STYLE}\n</style>",
            f'<text class="small" x="0" y="12">{label}</text>',
            *parts,
            "</svg>\n",
        ]
    )


def bars(rows: dict[str, str], top: int) -> Iterable[str]:
    """A bar for each contender, the fastest first."""
    scale = (WIDTH - LEFT - RIGHT) / max(map(float, rows.values()))
    for at, (name, seconds) in enumerate(sorted(rows.items(), key=lambda row: float(row[1]))):
        y, width = top + at * ROW, round(float(seconds) * scale, 1)
        own = ' class="own"' if name == "splitter" else ""
        yield f'<text{own} x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{escape(name)}</text>'
        yield f'<rect{own} x="{LEFT}" y="{y + 3}" width="{width}" height="{ROW - 6}" rx="3"/>'
        yield f'<text{own} x="{LEFT + width + 8:.1f}" y="{y + 16}">{seconds}</text>'


# -- the report ---------------------------------------------------------------------------------------------

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
)
SIZE = (1180, 690)
# what is below the table is left out
HEIGHT = 596
# how many rows down the table is the one that is shown beside it
DOWN = 3


def photograph_report() -> None:
    """Run the first command of README.md, and take pictures of its report in light and dark."""
    from selenium import webdriver
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.support.ui import WebDriverWait

    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(DOCS.parent / "data_samples", Path(folder, "data_samples"))
        for command in ("run data_samples/dataset.csv --quiet", "report outputs"):
            subprocess.run([sys.executable, "-m", "splitter", *command.split()], cwd=folder, check=True)
        options = webdriver.ChromeOptions()
        for flag in [*FLAGS.split(), f"--user-data-dir={folder}/chromium"]:
            options.add_argument(flag)
        options.binary_location = shutil.which("chromium") or ""
        driver = webdriver.Chrome(
            options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))
        )
        try:
            for theme, name in (("light", "report.png"), ("dark", "report-dark.png")):
                features = [{"name": "prefers-color-scheme", "value": theme}]
                driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
                size = {"width": SIZE[0], "height": SIZE[1], "deviceScaleFactor": 1, "mobile": False}
                driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
                driver.get(f"file://{folder}/outputs/report.html")
                WebDriverWait(driver, 30).until(
                    lambda one: one.execute_script("return document.documentElement.dataset.ready")
                )
                ActionChains(driver).send_keys("j" * (DOWN + 1)).perform()
                driver.execute_script(
                    "document.querySelector('#outputs').scrollIntoView({behavior: 'instant'})"
                )
                top = driver.execute_script("return scrollY")
                clip = {"x": 0, "y": top, "width": SIZE[0], "height": HEIGHT, "scale": 1}
                picture = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip})
                (IMAGES / name).write_bytes(base64.b64decode(picture["data"]))
        finally:
            driver.quit()


if __name__ == "__main__":
    if sys.argv[1:] == ["report"]:
        photograph_report()
    else:
        (IMAGES / "costs.svg").write_text(chart(), encoding="utf-8")
