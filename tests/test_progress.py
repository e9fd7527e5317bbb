"""What is shown while a run goes on."""

import pytest

from splitter.jobs import Report
from splitter.progress import Display


def test_lines_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """How much is done, and on what; how long it will take is said only once there is something to go by."""
    monkeypatch.setattr("splitter.progress.SECONDS_BETWEEN_LINES", 0.0)
    with Display() as display:
        display.start(inputs=8, size=80)
        display.update(Report(), "2 nodes, 3 of 8 CPUs")
        display.update(Report(inputs=4, outputs=9, bytes=2_000), "2 nodes, 8 of 8 CPUs")
        display.update(Report(inputs=8, outputs=18, bytes=4_000))
    lines = [line for line in capfd.readouterr().err.splitlines() if " of 8 inputs, " in line]
    assert lines[0] == "0 of 8 inputs, 0 outputs, 0 bytes, 0.0 inputs/s on 2 nodes, 3 of 8 CPUs"
    assert lines[1].startswith("4 of 8 inputs, 9 outputs, 2 kB, ")
    assert " inputs/s on 2 nodes, 8 of 8 CPUs, 0." in lines[1]
    assert lines[1].endswith(" s left")
    assert "node" not in lines[2]
