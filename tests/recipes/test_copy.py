"""The recipe `copy`: what comes out is what went in, wherever that is."""

import json
import tarfile
from pathlib import Path

import pytest
import soundfile
from doors import CHECKOUT, here, read_table, write_files
from web_server import web_server

import splitter
from splitter import InputList, OutputFile, ProcessorDataset
from splitter.recipes.chunk import Chunk
from splitter.recipes.copy import Copy
from splitter.recipes.words import Words
from splitter.testing.recipes import RecipeConformance

FILES = {
    "a.bin": bytes(range(256)) * 9000,
    "empty.txt": b"",
    "no extension": b"1",
    "in/été.tar.gz": b"\0\r\n",
    "in/a.bin": b"other",
}


class Names(ProcessorDataset):
    """A file with the name of its input."""

    def process(self, input_file):
        return [OutputFile("name.txt", input_file.name)], {}


class TestCopy(RecipeConformance):
    recipe = Copy

    def inputs(self, folder: Path) -> None:
        write_files(folder, FILES)


def contents_of(output: Path) -> dict[str, bytes]:
    """What was copied of each input, as it is read back."""
    manifest = splitter.read_manifest(output)
    return {row.input: splitter.read_output(row, output) for row in manifest.itertuples()}


@pytest.mark.parametrize("sink", ["files", "webdataset", "parquet"])
def test_each_file_is_copied_as_it_is(folder, sink):
    """Each gives one output of its name; the plan knows how many, and what they take."""
    dataset = Copy(write_files(folder / "inputs", FILES))
    forecast = dataset.plan(folder / "out", sink=sink)
    manifest = dataset.run(folder / "out", workers=0, quiet=True, sink=sink)
    assert contents_of(folder / "out") == FILES
    assert not {*manifest.columns} - {"input", "output", "size", "checksum", "output_name", "shard_offset"}
    names = manifest["output"] if sink == "files" else manifest["output_name"]
    assert [Path(name).name for name in names] == [Path(name).name for name in manifest["input"]]
    assert forecast.outputs == len(manifest)
    if sink == "files":
        assert forecast.bytes == sum(map(len, FILES.values()))


def test_a_missing_input_fails_alone(folder):
    """Its error names it, and the others are copied."""
    write_files(folder, {"a.txt": "a"})
    inputs = ["a.txt", "b.txt"]
    splitter.run(Copy(InputList(inputs, root=folder)), folder / "out", workers=0, quiet=True)
    assert contents_of(folder / "out") == {"a.txt": b"a"}
    [failed] = read_table(folder / "out/errors.csv")
    assert failed["message"] == f"{folder}/b.txt: does not exist"


def test_what_is_chosen_of_a_stage_goes_into_shards(capfd, folder):
    """Rows by their labels; the samples are the files of the first stage, in the order of its manifest."""
    write_files(folder / "in", {"a.txt": "simple", "b.txt": "scaleable"})
    Words(folder / "in").run(folder / "one", workers=0, quiet=True)
    command = ("--column", "output", "--where", "from_word == 'simple'", "--recipe", "copy")
    options = ("--sink", "webdataset", "--workers", "0", "-o", folder / "two")
    said = here(capfd, "run", folder / "one/manifest.csv", *command, *options)
    assert said.code == 0, said.err
    first = [row for row in read_table(folder / "one/manifest.csv") if row["word"] == "simple"]
    with tarfile.open(folder / "two/shards/shard-000000.tar") as shard:
        samples = [shard.extractfile(one).read() for one in shard if one.name.endswith(".txt")]
    assert samples == [(folder / "one" / row["output"]).read_bytes() for row in first]
    assert [row["checksum"] for row in read_table(folder / "two/manifest.csv")] == [
        row["checksum"] for row in first
    ]


def test_inputs_that_are_no_files_here(folder):
    """In an archive, at a URL, or cut out of a recording."""
    write_files(folder / "in", FILES)
    with tarfile.open(folder / "in.tar", "w") as archive:
        archive.add(folder / "in/a.bin", "a.bin")
    Copy(folder / "in.tar").run(folder / "tar", workers=0, quiet=True)
    assert contents_of(folder / "tar") == {"in.tar/a.bin": FILES["a.bin"]}
    with web_server() as web:
        web.files["/in/a.bin"] = FILES["a.bin"]
        Copy([web.url("in/a.bin")]).run(folder / "web", workers=0, quiet=True)
        assert contents_of(folder / "web") == {web.url("in/a.bin"): FILES["a.bin"]}
    sound = CHECKOUT / "data_samples/speech/greeting.wav"
    for sink in ("files", "virtual"):
        Chunk([sound], seconds=2).run(folder / sink, workers=0, quiet=True, sink=sink)
        stage = InputList(folder / sink / "manifest.csv", column="output")
        Copy(stage).run(folder / f"copy of {sink}", workers=0, quiet=True, name="{path}")
    copied = [contents_of(folder / f"copy of {sink}") for sink in ("files", "virtual")]
    assert len(copied[0]) > 1
    assert copied[0] == copied[1]


def test_what_an_earlier_stage_says_of_sound_still_holds(folder, capfd):
    """Of what made the input, not of the stage before that; a label of that name is left alone."""
    sounds = CHECKOUT / "data_samples/speech"
    greeting = InputList(["greeting.wav"], root=sounds)
    first = Chunk(greeting, seconds=2, tail="keep", sample_rate=8000, format="wav")
    first.run(folder / "cut", workers=0, quiet=True)
    cut = sorted((folder / "cut").rglob("*.wav"))
    pieces = [soundfile.info(piece) for piece in cut]
    stated = {"sample_rate": [8000] * 3, "channels": [1] * 3, "frames": [one.frames for one in pieces]}
    lists = [InputList(folder / "cut/manifest.csv", column="output")]
    for name, sink in (("copied", "files"), ("again", "webdataset")):
        Copy(lists[-1]).run(folder / name, workers=0, quiet=True, sink=sink)
        manifest = splitter.read_manifest(folder / name)
        assert {column: [*manifest[column]] for column in stated} == stated
        lists.append(InputList(folder / name / "manifest.csv", column="output"))
    tally = json.loads(here(capfd, "stats", folder / "again", "--json").out)
    assert tally["total"]["hours"] == pytest.approx(sum(stated["frames"]) / 8000 / 3600)
    assert here(capfd, "split", folder / "again", "--by", "input").code == 0
    assert here(capfd, "export", folder / "again", "--to", "nemo", "-o", folder / "nemo").code == 0
    assert here(capfd, "verify", folder / "again", "--deep").code == 0
    # what a recipe has made of the pieces is no longer what the cutting stage has said
    Names(lists[0]).run(folder / "names", workers=0, quiet=True)
    made = Copy(InputList(folder / "names/manifest.csv", column="output"))
    renamed = Copy(InputList(folder / "cut/manifest.csv", column="output", rename={"frames": "channels"}))
    for number, (one, columns) in enumerate([(made, set()), (renamed, {"sample_rate"})]):
        one.run(folder / str(number), workers=0, quiet=True)
        schema = json.loads((folder / str(number) / ".splitter/schema.json").read_text())
        assert {*schema["types"]} & {*stated} == columns
