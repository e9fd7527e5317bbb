"""A headless browser, and pages to look at."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from doors import program
from report_pages import many_rows, serving, speech, troubled

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --window-size=1400,1000"
)
LONG = 30


class Chromium:
    """A browser, with what the tests do in it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path | str) -> None:
        """Open a page, and wait until its rows are there."""
        self.driver.get(page if isinstance(page, str) else f"file://{quote(str(page))}")
        self.wait("document.documentElement.dataset.ready")

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def value(self, expression: str) -> Any:
        return self.run(f"return {expression}")

    def wait(self, expression: str) -> Any:
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(self.driver, LONG, poll_frequency=0.05)
        return waiting.until(lambda _: self.value(expression), message=expression)

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def click(self, selector: str) -> None:
        element = self.find(selector)
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        element.click()

    def keys(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def texts(self, selector: str) -> list[str]:
        return self.run(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", selector
        )

    def wear(self, theme: str, width: int = 1400, height: int = 1000) -> None:
        """Set the theme of the system, and the size of the window."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def complaints(self) -> list[str]:
        """Return what the console has printed since the last call."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]


@pytest.fixture(scope="session")
def chromium_of_all(tmp_path_factory) -> Iterator[Chromium]:
    """Start one browser for all tests."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield Chromium(driver)
    finally:
        driver.quit()


@pytest.fixture
def chromium(chromium_of_all) -> Chromium:
    """Return the browser, with nothing in its console and the usual window."""
    chromium_of_all.driver.get("about:blank")
    chromium_of_all.wear("light")
    chromium_of_all.complaints()
    return chromium_of_all


def made(folder: Path, dataset: Path, *options: str) -> Path:
    """Run, and make the report; return the output folder."""
    output = folder / "outputs"
    said = program("run", dataset, "-o", output, "--workers=1", "--quiet", *options)
    assert said.code in (0, 1), said.err
    assert program("report", output).code == 0
    return output


@pytest.fixture(scope="session")
def speech_output(tmp_path_factory) -> Path:
    """Cut data_samples into chunks of four seconds that overlap, with labels from annotations."""
    folder = tmp_path_factory.mktemp("it's speech")
    dataset = speech(folder)
    labels = "0.5\t2.5\tintro\n8.8\t11.2\tcut word\n"
    (folder / "data_samples" / "speech" / "podcast.txt").write_text(labels)
    return made(folder, dataset, "--seconds=4", "--overlap=1", "--annotations=beside")


@pytest.fixture(scope="session")
def troubled_output(tmp_path_factory) -> Path:
    """Make outputs of a run in which some inputs failed, with hostile names and labels."""
    folder = tmp_path_factory.mktemp("trouble 100%")
    return made(folder, troubled(folder), "--seconds=1")


@pytest.fixture(scope="session")
def many_output(tmp_path_factory) -> Path:
    """Make a hundred thousand outputs, and their report."""
    output = many_rows(tmp_path_factory.mktemp("many") / "outputs", 100_000)
    assert program("report", output, "--sample=300").code == 0
    return output


@pytest.fixture(name="serving")
def start_serving():
    return serving
