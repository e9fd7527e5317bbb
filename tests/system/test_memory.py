"""The memory of a process includes that of the programs which it started."""

import os
import subprocess
import sys
import threading

from splitter.system.memory import memory_of

PROGRAM = "taken = b'x' * (64 << 20); print('ready', flush=True); input()"


def test_a_program_counts_whichever_thread_started_it():
    """As ffmpeg does that a recipe starts from a pool of threads."""
    ready, over = threading.Event(), threading.Event()

    def start() -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-c", PROGRAM], **pipes) as program:
            program.stdout.readline()
            ready.set()
            over.wait(60)

    before = memory_of(os.getpid())
    thread = threading.Thread(target=start)
    thread.start()
    try:
        assert ready.wait(60)
        assert memory_of(os.getpid()) - before > 60 << 20
    finally:
        over.set()
        thread.join()
