"""Write images/resume.svg, a recording of a real run: `python docs/make_recording.py` from a checkout.

A run is killed, continued with the same command, and compared with one that nothing disturbed. It shows what
was typed and printed; only waiting is cut short.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parent
COPIES = 40
COMMAND = "splitter run recordings --sample-rate 16000 --format flac"
COMPARED = "diff -r --exclude=.splitter outputs undisturbed && echo identical"

LINE, LEFT, WIDTH = 22, 16, 880
TYPING, LONGEST_WAIT, LAST_LOOK = 1.2, 1.5, 5.0
STYLE = """\
rect { fill: #161b22; }
text { font: 14px ui-monospace, Menlo, Consolas, monospace; fill: #c9d1d9; white-space: pre; }
.typed { fill: #7ee787; }
.killed { fill: #ff7b72; }"""

Shown = list[tuple[float, str, str]]


def record() -> Shown:
    """Run it; the seconds, the kind and the text of each line."""
    shown: Shown = []
    with tempfile.TemporaryDirectory() as folder:
        recordings = Path(folder, "recordings")
        for copy in range(COPIES):
            shutil.copytree(DOCS.parent / "data_samples" / "speech", recordings / f"day-{copy:02d}")
        run(folder, f"{COMMAND} --output undisturbed --quiet")
        shown.append((0.0, "typed", COMMAND))
        begun = time.monotonic()
        with Path(folder, "said").open("w+b") as said:
            process = subprocess.Popen(words(COMMAND), cwd=folder, stderr=said, start_new_session=True)
            while len(list(Path(folder, "outputs").glob("day-*/*"))) < COPIES * 4:
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            said.seek(0)
            first = said.read().decode()
        shown += [(0.8, "said", line) for line in first.splitlines()]
        shown.append(
            (
                time.monotonic() - begun,
                "killed",
                "Killed                      # kill -9 from another terminal",
            )
        )
        for command in (COMMAND, COMPARED):
            shown.append((TYPING, "typed", command))
            begun = time.monotonic()
            lines = run(folder, command).replace(folder, "/home/me").splitlines()
            shown += [
                (time.monotonic() - begun if at == 0 else 0.1, "said", line) for at, line in enumerate(lines)
            ]
    return shown


def words(command: str) -> list[str]:
    """A command of splitter's, for this Python."""
    return [sys.executable, "-m", *shlex.split(command)]


def run(folder: str, command: str) -> str:
    """Run a command to its end; what it prints."""
    line = command.replace("splitter run", shlex.join([sys.executable, "-m", "splitter", "run"]))
    done = subprocess.run(
        ["/bin/bash", "-c", line],
        cwd=folder,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.stdout


def drawn(shown: Shown) -> str:
    """The recording as an SVG whose lines appear in turn, again and again."""
    times, now = [], 0.0
    for seconds, _, _ in shown:
        now += min(seconds, LONGEST_WAIT)
        times.append(now)
    whole = now + LAST_LOOK
    rules, lines = [], []
    for at, ((_, kind, text), start) in enumerate(zip(shown, times, strict=True)):
        share = 100 * start / whole
        hidden, there = f"0%, {share:.1f}% {{ opacity: 0 }}", f"{share + 0.1:.1f}%, 100% {{ opacity: 1 }}"
        rules.append(f"@keyframes l{at} {{ {hidden} {there} }}")
        rules.append(f"#l{at} {{ animation: l{at} {whole:.1f}s infinite }}")
        prompt = "$ " if kind == "typed" else ""
        y = LINE * (at + 1) + 6
        lines.append(f'<text id="l{at}" class="{kind}" x="{LEFT}" y="{y}">{escape(prompt + text)}</text>')
    height = LINE * (len(shown) + 1)
    still = "@media (prefers-reduced-motion: reduce) { text { animation: none !important } }"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            "<title>A run is killed, continued with the same command, and ends with the same files</title>",
            f"<style>\n{STYLE}\n{chr(10).join(rules)}\n{still}\n</style>",
            f'<rect width="{WIDTH}" height="{height}" rx="8"/>',
            *lines,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    (DOCS / "images" / "resume.svg").write_text(drawn(record()), encoding="utf-8")
