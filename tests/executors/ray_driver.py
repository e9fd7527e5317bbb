"""A driver that stays connected to a Ray cluster: one run for each line on its standard input.

Ray's workers live as long as the connection of their driver, and most runs of the tests take less time than
they take to start.
"""

import json
import os
import sys
import traceback
from pathlib import Path

import ray

from splitter.cli.main import exit_code


def _serve(address: str) -> None:
    # what Ray prints is not an answer
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    ray.init(address=address, namespace="splitter", log_to_driver=False, logging_level="CRITICAL")
    for line in sys.stdin:
        answers.write(json.dumps(_run(**json.loads(line))) + "\n")
        answers.flush()
    ray.shutdown()


def _run(arguments: list[str], folder: str, stderr: str) -> int:
    """Run a command line in a folder, with standard error to a file; return its exit code."""
    os.chdir(folder)
    before = os.dup(2)
    with Path(stderr).open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        return exit_code(arguments)
    except BaseException:  # noqa: BLE001 - what a test is looking for
        traceback.print_exc()
        return -1
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)


if __name__ == "__main__":
    _serve(sys.argv[1])
