"""The sink of virtual pieces: nothing is written, and what is read is what would have been written."""

import os
import random
import shutil
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import fsspec
import numpy as np
import pytest
import soundfile
from crashes import killed, undisturbed
from doors import here, read_table, tree, write_files
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth
from report_pages import serving
from sounds import noise, samples_of, tone, write_sound

import splitter
from splitter.audio.pieces import Cut, Storing
from splitter.audio.target import Target
from splitter.errors import Refused, StorageError
from splitter.outputs.frame import Manifest
from splitter.recipes.chunk import Chunk
from splitter.recipes.spectrogram import Spectrogram
from splitter.recipes.words import Words

OWN = {"cut", "source_size", "source_checksum"}
UNKNOWN = {"size", "checksum"}
# rates that divide nothing, and every way of cutting: byte ranges, frames, packets, decoding
RECORDINGS = {
    "pcm.wav": (11_127, 2, "WAV", "PCM_16"),
    "deep.wav": (44_100, 1, "WAV", "PCM_24"),
    "flac.flac": (22_050, 2, "FLAC", "PCM_16"),
    "mp3.mp3": (22_050, 1, "MP3", "MPEG_LAYER_III"),
    "opus.opus": (48_000, 1, "OGG", "OPUS"),
    "vorbis.ogg": (16_000, 1, "OGG", "VORBIS"),
    "aiff.aiff": (8_000, 1, "AIFF", "PCM_16"),
}
WAYS: list[dict[str, Any]] = [
    {"seconds": 0.7, "overlap": 0.3},
    {"seconds": 0.9, "tail": "pad", "channels": "split", "sample_rate": 24_000},
    {"seconds": 0.5, "format": "flac", "channels": "mono", "lossy": "encode"},
]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of recordings of each kind, 3 seconds each."""
    folder = tmp_path_factory.mktemp("it's a naïve folder") / "in"
    folder.mkdir()
    for name, (rate, channels, container, subtype) in RECORDINGS.items():
        sound = tone(3, rate, channels) + noise(3 * rate, channels) // 8
        with open(folder / name, "wb") as file:
            soundfile.write(file, sound, rate, subtype, format=container)
    return folder


def make(inputs: Any, output: Path, sink: str = "virtual", **options: Any) -> Manifest:
    of_run = {name: options.pop(name) for name in ("keep", "root", "limit") if name in options}
    keep = {"keep_extension": True, "workers": 0, "quiet": True}
    return Chunk(inputs, **options).run(output, sink=sink, **keep, **of_run)


# -- what is read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_a_piece_is_read_as_it_would_have_been_written(recordings: Path, tmp_path: Path, way: dict[str, Any]):
    """Byte for byte, in any order, from every kind of recording; and the rows say the same."""
    files, virtual = (
        make(recordings, tmp_path / "files", "files", **way),
        make(recordings, tmp_path / "v", **way),
    )
    rows, others = read_table(tmp_path / "files/manifest.csv"), read_table(tmp_path / "v/manifest.csv")
    assert [{name: one[name] for name in one if name not in UNKNOWN} for one in rows] == [
        {name: one[name] for name in one if name not in UNKNOWN | OWN} for one in others
    ]
    assert {one[name] for one in others for name in UNKNOWN} == {""}
    assert [*tree(tmp_path / "v")] == ["manifest.csv"]
    order = list(range(len(virtual)))
    random.Random(0).shuffle(order)
    for number in order:
        content = (tmp_path / "files" / files["output"][number]).read_bytes()
        assert splitter.read_output(virtual.iloc[number]) == content, files["output"][number]
    assert len({*virtual["input"]}) == len(RECORDINGS)


def test_what_is_read_is_that_part_of_the_recording(recordings: Path, tmp_path: Path):
    """By another reader of WAV: the samples that the row names, and no others."""
    manifest = make([str(recordings / "pcm.wav")], tmp_path / "v", seconds=0.37, overlap=0.1)
    whole, _ = soundfile.read(recordings / "pcm.wav", dtype="int32", always_2d=True)
    dataset = splitter.open(tmp_path / "v", where="start_seconds > 0.2")
    assert len(dataset) == len(manifest) - 1
    for row in dataset:
        part = whole[row["start_sample"] : row["stop_sample"]]
        assert np.array_equal(samples_of(splitter.read_output(row, tmp_path / "v")), part)
        assert np.array_equal(row["content"].numpy().T, (part / 2**31).astype("f4"))
    streamed = splitter.open(tmp_path / "v", streaming=True, shuffle=True, decode=False)
    assert sorted(one["output"] for one in streamed) == sorted(manifest["output"])


@settings(max_examples=depth(50))
@given(
    st.integers(0, 10**9),
    st.integers(1, 10**9),
    st.integers(0, 10**6),
    st.none() | st.integers(0, 9),
    st.builds(
        Storing,
        st.builds(
            Target,
            sample_rate=st.none() | st.integers(8000, 48_000),
            channels=st.sampled_from(["keep", "mono", "split", "first"]),
            format=st.sampled_from(["same", "wav", "flac"]),
            subtype=st.sampled_from([None, "PCM_16", "PCM_24"]),
            lossy=st.sampled_from(["copy", "encode"]),
        ),
        st.sampled_from(["error", "keep"]),
    ),
)
def test_the_text_of_a_cut_says_all_of_it(start, length, silence, channel, storing):
    cut = Cut(start, start + length, silence, channel, storing)
    assert Cut.parse(str(cut)) == cut


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "5:4",
        "5:5",
        "-1:4",
        "0:4 channel=0",
        "0:4 device=cuda",
        "0:4 format=exe",
        "0:4 rate=1",
        "0:4 x",
    ],
)
def test_a_text_that_no_run_has_written_is_refused(text: str):
    with pytest.raises(ValueError, match="is not a piece of a recording"):
        Cut.parse(text)


# -- files made later --------------------------------------------------------------------------------------


def test_the_same_run_with_files_makes_them(recordings: Path, tmp_path: Path):
    """The folder is then what it would be without any virtual pieces; and the other way round."""
    make(recordings, tmp_path / "files", "files", seconds=1.0)
    make(recordings, tmp_path / "both", seconds=1.0)
    virtual = tree(tmp_path / "both")
    make(recordings, tmp_path / "both", "files", seconds=1.0)
    assert tree(tmp_path / "both") == tree(tmp_path / "files")
    make(recordings, tmp_path / "both", seconds=1.0)
    assert tree(tmp_path / "both") == virtual


def test_a_strangers_file_with_the_name_of_a_piece_is_left_alone(recordings: Path, tmp_path: Path):
    """Also where the piece goes, since its recording is cut in another way."""
    name = make(recordings, tmp_path / "v", seconds=1.0)["output"][0]
    write_files(tmp_path / "v", {name: "mine"})
    assert [one.kind for one in splitter.verify(tmp_path / "v").findings if one.file == name] == ["extra"]
    make(recordings, tmp_path / "v", seconds=1.5)
    assert (tmp_path / "v" / name).read_text() == "mine"
    assert not (set(tree(tmp_path / "v")) - {"manifest.csv", name})


# -- recordings that are not what they were ----------------------------------------------------------------


@pytest.fixture
def noted(tmp_path: Path) -> Path:
    """An output folder of virtual pieces, beside their recordings."""
    (tmp_path / "in").mkdir()
    for letter in "ab":
        write_sound(tmp_path / f"in/{letter}.wav", noise(8000, seed=ord(letter)), 8000)
    make(tmp_path / "in", tmp_path / "v", seconds=0.25)
    return tmp_path


def change(path: Path) -> None:
    """Keep the size, and say that the file is old."""
    content, before = bytearray(path.read_bytes()), path.stat()
    content[-100] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    ("do", "why"),
    [
        (change, "its checksum differs"),
        (lambda path: path.write_bytes(path.read_bytes() + b"\0\0"), "it has 16,046 bytes instead of 16,044"),
        (Path.unlink, "does not exist"),
    ],
    ids=["changed", "longer", "gone"],
)
def test_a_recording_that_is_not_what_it_was(noted: Path, do: Any, why: str, capfd):
    """Its pieces are an error that names it, for a reader that has it open, too; others are read on."""
    dataset = splitter.open(noted / "v")
    assert len(dataset[0]["content"][0]) == 2000
    do(noted / "in/a.wav")
    with pytest.raises(StorageError, match=rf"a\.wav.*{why}"):
        dataset[0]
    assert len(dataset[4]["content"][0]) == 2000
    [finding] = splitter.verify(noted / "v").findings
    assert (finding.kind, finding.file) == ("source", "a.wav")
    assert "4 virtual pieces cannot be read" in finding.message
    assert here(capfd, "verify", noted / "v").code == 1
    # the next stage does what it can
    assert stage(capfd, noted).code == 1
    rows = read_table(noted / "next/manifest.csv")
    assert {row["from_input"] for row in rows} == {"b.wav"}
    assert len(read_table(noted / "next/errors.csv")) == 4


def test_a_copy_of_the_folder_still_finds_out(noted: Path):
    """Though all its files are younger than the change."""
    change(noted / "in/a.wav")
    time.sleep(0.01)
    shutil.copytree(noted / "v", noted / "copy", copy_function=shutil.copyfile)
    dataset = splitter.open(noted / "copy")
    with pytest.raises(StorageError, match="its checksum differs"):
        dataset[0]
    assert len(dataset[4]["content"][0]) == 2000


def test_a_file_that_was_only_touched_is_read_once_more(noted: Path):
    """What it is decides, not when it was written."""
    os.utime(noted / "in/a.wav")
    assert len(splitter.open(noted / "v")[0]["content"][0]) == 2000
    assert splitter.verify(noted / "v").ok


def stage(capfd, folder: Path, *options: str) -> Any:
    manifest = folder / "v/manifest.csv"
    recipe = ("--column", "output", "--recipe", "chunk", "--seconds", "0.1", "--workers", "0")
    return here(capfd, "run", manifest, *recipe, "--output", folder / "next", *options)


# -- the other commands ------------------------------------------------------------------------------------


def test_the_next_stage_reads_them(noted: Path, capfd):
    """As it reads files: the same outputs; nothing is done twice; a changed cut is done again."""
    assert stage(capfd, noted).code == 0
    made = tree(noted / "next")
    make(noted / "in", noted / "files", "files", seconds=0.25)
    command = ("--column", "output", "--seconds", "0.1", "--workers", "0")
    assert here(capfd, "run", noted / "files/manifest.csv", *command, "-o", noted / "other").code == 0
    other = tree(noted / "other")
    assert {**made, "manifest.csv": ""} == {**other, "manifest.csv": ""}
    assert len(made) == 1 + 8 * 3
    assert "nothing to do: 8 inputs" in stage(capfd, noted).err
    make(noted / "in", noted / "v", seconds=0.2)
    assert "10 inputs" in stage(capfd, noted, "--prune").err
    assert splitter.verify(noted / "next").ok


def test_verify_deep_makes_them_and_reads_them(noted: Path, capfd):
    """A row that is edited in the commit record's own words would be found, since the files differ."""
    said = here(capfd, "verify", noted / "v", "--deep")
    assert said.code == 0, said.out
    assert "2 inputs made again" in said.out


@pytest.mark.slow
def test_numbers_report_and_server(noted: Path, capfd):
    """Pieces count and are heard, though they have no size."""
    said = here(capfd, "stats", noted / "v", "--json")
    assert '"outputs": 8' in said.out
    assert here(capfd, "split", noted / "v", "--by", "input").code == 0
    assert "8 outputs, all of them read" in here(capfd, "report", noted / "v").out
    make(noted / "in", noted / "files", "files", seconds=0.25)
    name = read_table(noted / "v/manifest.csv")[5]["output"]
    with serving(noted / "v") as server, closing(urlopen(server.url + name)) as answer:  # noqa: S310
        assert answer.read() == (noted / "files" / name).read_bytes()


def test_an_export_makes_files_of_them(noted: Path, capfd):
    """Where the other tool reads files; the recordings themselves serve where it does not."""
    make(noted / "in", noted / "files", "files", seconds=0.25)
    assert here(capfd, "export", noted / "v", "--to", "lhotse", "-o", noted / "cuts").code == 0
    made = sorted(path.read_bytes() for path in (noted / "cuts").rglob("*.wav"))
    assert made == sorted(path.read_bytes() for path in (noted / "files").rglob("*.wav") if path.is_file())
    said = here(capfd, "export", noted / "v", "--to", "lhotse", "--virtual", "-o", noted / "of recordings")
    assert "no content copied" in said.out


def test_what_is_measured_and_kept(noted: Path):
    """As with files: all have rows, and readers take those that are kept."""
    options = {"measure": "levels", "seconds": 0.25}
    files = make(noted / "in", noted / "files", "files", **options, keep="start_seconds < 0.6")
    virtual = make(noted / "in", noted / "kept", **options, keep="start_seconds < 0.6")
    assert [*virtual["kept"]] == [*files["kept"]]
    assert [*virtual["rms"]] == [*files["rms"]]
    assert len(splitter.open(noted / "kept")) == 6


def test_recordings_at_urls(tmp_path: Path):
    """They are fetched to be read, and compared with what they were."""
    store, folder = fsspec.filesystem("memory"), f"memory:/{tmp_path}"
    write_sound(tmp_path / "a.wav", noise(8000), 8000)
    store.pipe_file(f"{tmp_path}/a.wav", (tmp_path / "a.wav").read_bytes())
    try:
        make([f"{folder}/a.wav"], tmp_path / "v", seconds=0.25)
        make([f"{folder}/a.wav"], tmp_path / "files", "files", seconds=0.25)
        contents = [one["content"] for one in splitter.open(tmp_path / "files", decode=False)]
        assert [one["content"] for one in splitter.open(tmp_path / "v", decode=False)] == contents
        assert splitter.verify(tmp_path / "v", workers=1).ok
        change(tmp_path / "a.wav")
        store.pipe_file(f"{tmp_path}/a.wav", (tmp_path / "a.wav").read_bytes())
        with pytest.raises(StorageError, match=r"a\.wav: has changed since its pieces were noted"):
            splitter.open(tmp_path / "v")[0]
    finally:
        store.rm(str(tmp_path), recursive=True)


# -- refused before work -----------------------------------------------------------------------------------


class Louder(Chunk):
    """Does more than cut."""

    def process(self, input_file):
        return super().process(input_file)


@pytest.mark.parametrize(
    ("recipe", "options", "why"),
    [
        (Words, {}, "Words does more than cut pieces out of recordings"),
        (Louder, {}, "Louder does more than cut pieces out of recordings"),
        (Chunk, {"audiofolder": True}, "--audiofolder: is for loose files"),
        (Chunk, {"shard_size": "1MB"}, "--shard-size is only for shards"),
        (Spectrogram, {}, "Spectrogram does more than cut pieces out of recordings"),
        (partial(Chunk, loudness=-23.0), {}, "leave --loudness out"),
    ],
    ids=["another recipe", "another process", "audiofolder", "shards", "another content", "a gain"],
)
def test_what_cannot_be_virtual_is_refused(recordings: Path, tmp_path: Path, recipe, options, why):
    with pytest.raises(Refused, match=why):
        recipe(recordings).run(tmp_path / "v", sink="virtual", quiet=True, **options)
    assert not (tmp_path / "v").exists()


def test_the_folder_as_the_next_stage_names_the_manifest(noted: Path, capfd):
    """It holds no files that could be the inputs."""
    said = here(capfd, "run", noted / "v", "--output", noted / "next")
    assert said.code == 2
    assert f"use {noted}/v/manifest.csv --column output" in said.err


def test_pieces_of_pieces_are_refused(noted: Path, capfd):
    assert "is a virtual piece itself; use --sink files" in stage(capfd, noted, "--sink", "virtual").err


# -- kills -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_at_any_change_and_continued(noted: Path):
    """The next run leaves what an undisturbed one leaves."""
    given = ("--sink", "virtual", "--seconds", "0.1", "--workers", "0", "--batch-size", "1")
    command = ["run", str(noted / "in"), *given, "--output"]
    ended = undisturbed([*command, str(noted / "whole")])
    assert ended.code == 0, ended.said
    whole = tree(noted / "whole")
    for at in (len(ended.steps) // 3, len(ended.steps) * 2 // 3):
        output = noted / f"killed {at}"
        assert killed([*command, str(output)], at).died
        assert not (set(tree(output)) - {"manifest.csv"})
        assert undisturbed([*command, str(output)]).code == 0
        assert tree(output) == whole
