"""Runs whose output is in an object store: the same as in a folder, whatever fails on the way."""

from pathlib import Path

from doors import here, tree
from object_store import Bucket


def test_the_objects_of_a_run_are_the_files_of_a_local_one(s3: Bucket, words: Path, folder: Path, capfd):
    """Byte for byte, the manifest too; a second run finds nothing to do."""
    options = ["--recipe", "words", "--root", "inputs", "--workers", "2", "--batch-size", "1"]
    there = here(capfd, "run", words, *options, "--output", s3.url("it's/out put"))
    assert (there.code, here(capfd, "run", words, *options, "--output", folder / "local").code) == (0, 0)
    assert s3.tree("it's/out put") == tree(folder / "local")
    assert s3.url("it's/out put/manifest.csv") in there.err
    again = here(capfd, "run", words, *options, "--output", s3.url("it's/out put"))
    assert (again.code, again.lines[0][:13]) == (0, "nothing to do")
    assert s3.tree("it's/out put") == tree(folder / "local")
