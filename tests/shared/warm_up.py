"""What a process that forks runs does first, so that each run does less.

A run that has to import its sink, to read what botocore knows of S3, and to parse its first options takes
half of its time for that. A fork of a process that has done it once takes a third less, in files, and a
client of a store needs 60 ms of CPU time instead of 180.
"""

import contextlib
import functools
import gc
import io
import tempfile
from pathlib import Path

from huge_pages import use_huge_pages

SINKS = ("files", "webdataset", "parquet")


def warm_up() -> None:
    """Run once with each sink, and verify; then share all objects with the forks, in huge pages."""
    from doors import write_list

    from splitter.cli.main import exit_code

    with tempfile.TemporaryDirectory(prefix="splitter-test-") as folder, io.StringIO() as said:
        Path(folder, "a.txt").write_text("word")
        dataset = write_list(Path(folder, "list.csv"), [["input"], ["a.txt"]])
        for sink in SINKS:
            output = f"--output={folder}/{sink}"
            run = ["run", str(dataset), "--recipe=words", "--workers=0", f"--sink={sink}", output]
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                codes = [exit_code(run), exit_code(["verify", f"{folder}/{sink}", "--workers=1"])]
            assert codes == [0, 0], said.getvalue()
    share_objects()


def share_objects() -> None:
    """Leave the objects that exist now out of garbage collection, here or in a fork, and in huge pages."""
    gc.collect()
    gc.freeze()
    use_huge_pages()


def share_service_models() -> None:
    """Let all clients of S3 in this process and its forks share what botocore reads from its own files."""
    import botocore.session

    botocore.session.create_loader = functools.cache(botocore.session.create_loader)


def load_service_models() -> None:
    """Read, before any fork, what a client of S3 needs."""
    import botocore.session
    import s3fs  # noqa: F401

    share_service_models()
    botocore.session.get_session().create_client("s3", region_name="us-east-1")
