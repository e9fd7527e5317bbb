"""`splitter.open`: the outputs of any sink as a torch Dataset, and as a stream that many read together."""

import builtins
import io
import itertools
import multiprocessing
import os
import pickle
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import soundfile
import torch
from doors import here, program, write_files, write_list
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth
from object_store import Bucket
from sounds import noise, write_sound
from torch.utils.data import DataLoader
from written_shards import as_shards

import splitter
from splitter import OutputFile, ProcessorDataset
from splitter.errors import Refused, StorageError

SINKS = ["files", "webdataset", "parquet"]
RECORDINGS = {f"{number:02d}.wav": 800 + 700 * number for number in range(6)}


@pytest.fixture(scope="module")
def sounds(tmp_path_factory) -> Path:
    """Recordings of several lengths, in a list with labels that look like numbers."""
    folder = tmp_path_factory.mktemp("sounds") / "it's naïve"
    for number, (name, frames) in enumerate(RECORDINGS.items()):
        write_sound(folder / name, noise(frames, channels=2, seed=number), 8000)
    rows = [[name, f"{number % 3:03d}"] for number, name in enumerate(RECORDINGS)]
    write_list(folder / "list.csv", [["input", "label"], *rows, ["lost.wav", "000"]])
    return folder


def run(sounds: Path, output: object, sink: str) -> None:
    shards = [] if sink == "files" else ["--sink", sink, "--shard-maxcount", "5"]
    base = ["run", sounds / "list.csv", "--seconds", "0.05", "--workers", "0", "--quiet", *shards]
    said = program(*base, "--output", output, **os.environ)
    assert said.code == 1, said.err


@pytest.fixture(scope="module")
def outputs_of(sounds: Path) -> dict[str, Path]:
    """The same outputs in each sink."""
    found = {sink: sounds / "outputs" / sink for sink in SINKS}
    for sink, folder in found.items():
        run(sounds, folder, sink)
    return found


@pytest.fixture(params=SINKS)
def outputs(request, outputs_of: dict[str, Path]) -> Path:
    return outputs_of[request.param]


def names(samples: list[dict[str, object]]) -> list[object]:
    return [sample["output"] for sample in samples]


# -- by number -----------------------------------------------------------------------------------------------


def test_each_item_is_its_row_and_its_sound(outputs: Path, outputs_of: dict[str, Path]):
    """Metadata with types, labels as text, and the samples that libsndfile finds in the loose file."""
    dataset = splitter.open(outputs)
    manifest = splitter.read_manifest(outputs)
    loose = splitter.read_manifest(outputs_of["files"])["output"]
    assert len(dataset) == len(manifest) == len(loose) > 30
    for number, (row, name) in enumerate(zip(manifest.to_dict("records"), loose, strict=True)):
        item = dataset[number]
        frames, rate = soundfile.read(outputs_of["files"] / name, dtype="float32", always_2d=True)
        content = item.pop("content")
        assert item == row
        assert (content.dtype, content.shape) == (torch.float32, (2, item["frames"]))
        assert np.array_equal(content.numpy(), frames.T)
        assert item["sample_rate"] == rate
        assert {type(value) for value in item.values()} == {str, int, float}
    assert dataset[-1]["output"] == dataset[len(dataset) - 1]["output"]
    with pytest.raises(IndexError, match="output 1000 of"):
        _ = dataset[1000]


def test_contents_come_as_they_are_asked_for(outputs: Path):
    """Bytes, or what a function makes of the bytes and the row; under another name, if need be."""
    row = splitter.read_manifest(outputs).iloc[7]
    content = splitter.read_output(row)
    assert splitter.open(outputs, decode=False)[7]["content"] == content
    sizes = splitter.open(outputs, decode=lambda data, of: (len(data), of["label"]), content="n")[7]
    assert sizes["n"] == (len(content), row["label"])
    assert "content" not in sizes


def test_other_kinds_of_content(folder: Path):
    """Text is text, an image is Pillow's, and what is not known stays as it is; damage is one clear error."""
    from PIL import Image

    picture = io.BytesIO()
    Image.new("RGB", (3, 2), (255, 0, 0)).save(picture, "PNG")
    contents = {
        "a.txt": "naïve".encode(),
        "b.JSON": b"[1]",
        "c.png": picture.getvalue(),
        "d.npy": b"\x93NUMPY",
        "e": b"\xff",
        "f.png": b"no image",
        "g.txt": b"\xff",
        "h.wav": b"no sound",
    }

    class Kinds(ProcessorDataset):
        def process(self, input_file):
            return [OutputFile(name, content) for name, content in contents.items()], {}

    write_files(folder, {"x.bin": "x"})
    Kinds([str(folder / "x.bin")]).run(folder / "out", workers=0, quiet=True)
    dataset = splitter.open(folder / "out")
    assert [dataset[number]["content"] for number in (0, 1, 3, 4)] == ["naïve", "[1]", b"\x93NUMPY", b"\xff"]
    assert dataset[2]["content"].size == (3, 2)
    for number, name in enumerate(["f.png", "g.txt", "h.wav"], 5):
        with pytest.raises(StorageError, match=rf"{name}: cannot be decoded: .*decode=False"):
            _ = dataset[number]


@pytest.mark.parametrize("kind", ["a label", "metadata"])
def test_a_column_named_as_the_place_in_a_shard(folder: Path, kind: str):
    """Beside loose files it is somebody's own, whatever stands in it."""
    values = ["", "3", "no number"]

    class Own(ProcessorDataset):
        def process(self, input_file):
            text = input_file.read_text()
            return [OutputFile("0.txt", text)], {} if kind == "a label" else {"shard_offset": text}

    write_files(folder, {f"{number}.txt": value for number, value in enumerate(values)})
    rows = [{"input": str(folder / f"{number}.txt"), "label": text} for number, text in enumerate(values)]
    rename = "label=shard_offset" if kind == "a label" else "label=other"
    manifest = Own(rows).run(folder / "out", workers=0, quiet=True, rename=[rename])
    assert manifest["shard_offset"].tolist() == values
    for options in ({}, {"streaming": True}):
        found = list(splitter.open(folder / "out", **options))
        assert [(one["content"], one["shard_offset"]) for one in found] == [(text, text) for text in values]
    assert [splitter.read_output(row) for _, row in manifest.iterrows()] == [*map(str.encode, values)]


def test_where_chooses_rows(outputs: Path):
    """As pandas' query does; and rows that were chosen before may be given themselves."""
    manifest = splitter.read_manifest(outputs)
    expected = manifest.query("label == '001' and frames < 400")["output"].tolist()
    assert 0 < len(expected) < len(manifest)
    dataset = splitter.open(outputs, where="label == '001' and frames < 400")
    assert names([*dataset]) == expected
    assert names([*splitter.open(manifest.query("label == '001' and frames < 400"))]) == expected
    split = splitter.split(manifest, train=0.5, test=0.5)
    train = splitter.open(split, where="split == 'train'", streaming=True)
    assert Counter(names([*train])) == Counter(split[split["split"] == "train"]["output"])
    for streaming in ({}, {"streaming": True, "shuffle": True}):
        with pytest.warns(UserWarning, match=r"where 'label == 7' matches none of \d+ outputs$"):
            assert [*splitter.open(outputs, where="label == 7", **streaming)] == []


@pytest.mark.parametrize(
    ("where", "pandas"),
    [
        ("label < 2", "label.astype('float') < 2"),
        ("label != 1 or frames == 400", "label.astype('float') != 1 or frames == 400"),
        ("label ~ '^0.*2$'", "label.str.fullmatch('0.*2')"),
        ("'2' in label and `frames` in (400, 300)", "label.str.contains('2') and frames in (400, 300)"),
        ("not (level < 3)", "level.isna() or level >= 3"),
        ("level == ''", "level.isna()"),
        ("start_sample % 800 == 0", "start_sample % 800 == 0"),
    ],
)
def test_where_knows_the_conditions_of_the_command_line(outputs_of: dict[str, Path], where: str, pandas: str):
    """A number is compared with text that looks like one; what only pandas knows works, too."""
    manifest = splitter.read_manifest(outputs_of["files"])
    manifest["level"] = pd.Series(range(len(manifest)), dtype="Int64").mask(manifest["frames"] < 400)
    expected = manifest.query(pandas)["output"].tolist()
    assert 0 < len(expected) < len(manifest)
    assert names([*splitter.open(manifest, where=where, decode=False)]) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"where": "nobody == 1"},
            "where 'nobody == 1': there is no column 'nobody'; there is 'input', 'label', 'output', ",
        ),
        ({"where": "lable == '001'"}, "there is no column 'lable'; did you mean 'label'?"),
        ({"where": "label + 1 < 30"}, "columns of the dataset list are text, so write label.astype('float')"),
        ({"where": "size < 'a'"}, "where \"size < 'a'\": "),
        ({"where": "1 == 1"}, "is not a condition; write one such as size > 1000; there is 'input'"),
        ({"where": "label =="}, "where 'label ==': is not a condition (invalid syntax)"),
        ({"where": "lable ~ '^0'"}, "there is no column 'lable'; did you mean 'label'?"),
        ({"where": "label ~ '['"}, "'[' is not a regular expression: unterminated character set"),
        ({"where": "label like '0%'"}, "; instead of LIKE write label ~ '^0'"),
        (
            {"where": "label = '001'"},
            "is not a condition; write one such as size > 1000 (equal is ==); there is 'input'",
        ),
        (
            {"where": "size"},
            "where 'size': is not a condition; write one such as size > 1000; there is 'input'",
        ),
        (
            {"content": "label"},
            "the manifest already has a column 'label'; choose another name with content=",
        ),
        ({"decode": "no"}, "decode is 'no'; give True, False or a function"),
        ({"shuffle": True}, "shuffle only works with streaming=True"),
        ({"rank": 0}, "rank only works with streaming=True"),
        ({"streaming": True, "rank": 1}, "rank 1 of world_size None; pass both"),
        (
            {"streaming": True, "rank": 2, "world_size": 2},
            "rank 2 of world_size 2; pass both, with the rank from 0",
        ),
        ({"streaming": True, "buffer": 0}, "buffer 0: must be at least 1"),
    ],
)
def test_what_cannot_be_opened_is_refused(outputs_of: dict[str, Path], options, message):
    with pytest.raises(Refused) as caught:
        splitter.open(outputs_of["files"], **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_seed_of_none_is_none(outputs_of: dict[str, Path]):
    """As elsewhere: it asks for nothing that only a stream can do."""
    assert len(splitter.open(outputs_of["files"], seed=None)) > 0
    with pytest.raises(Refused, match="seed only works with streaming=True"):
        splitter.open(outputs_of["files"], seed=1)


def test_what_is_no_output_folder_is_refused(folder: Path, outputs_of: dict[str, Path]):
    with pytest.raises(Refused, match="there is no manifest"):
        splitter.open(folder)
    table = pd.DataFrame(splitter.read_manifest(outputs_of["files"]).to_dict())
    with pytest.raises(Refused, match="the table does not know its output folder"):
        splitter.open(table)


def test_the_name_hides_no_other():
    """`splitter.open` is a name of the package, and no star import takes Python's own away."""
    namespace: dict[str, object] = {}
    exec("from splitter import *", namespace)  # noqa: S102 - a star is allowed in a module only
    assert "open" not in namespace
    assert builtins.open is open
    assert splitter.open is not open


@pytest.mark.parametrize(
    ("outputs", "start"), [*((sink, "fork") for sink in SINKS), ("webdataset", "spawn")], indirect=["outputs"]
)
@pytest.mark.slow
def test_workers_of_a_data_loader_read_each_output_once(outputs: Path, start: str):
    """Forked after this process has read some, or started anew."""
    dataset = splitter.open(outputs)
    _ = dataset[0]
    loader = DataLoader(
        dataset, batch_size=4, shuffle=True, num_workers=2, collate_fn=dataset.collate_fn,
        multiprocessing_context=multiprocessing.get_context(start),
    )  # fmt: skip
    samples = [sample for batch in loader for sample in batch]
    assert sorted(names(samples)) == sorted(splitter.read_manifest(outputs)["output"])
    chosen = max(samples, key=lambda sample: sample["frames"])
    own = dataset[splitter.read_manifest(outputs)["output"].tolist().index(chosen["output"])]
    assert torch.equal(chosen["content"], own["content"])


# -- as a stream ---------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:splitter.open. where .* matches none:UserWarning")
@settings(max_examples=depth(20))
@given(data=st.data())
def test_every_output_is_read_once_by_all_who_read_together(outputs_of: dict[str, Path], data):
    """Whatever the ranks, the sizes of shards, the buffer and the epoch; none has two more than another."""
    sink = data.draw(st.sampled_from(SINKS))
    world = data.draw(st.integers(1, 7))
    where = data.draw(
        st.sampled_from([None, "frames < 400", "label == '001'", "start_sample % 800 == 0", "frames < 0"])
    )
    options = {"shuffle": data.draw(st.booleans()), "buffer": data.draw(st.sampled_from([1, 3, 10, 1000]))}
    options["seed"] = data.draw(st.integers(0, 5))
    epoch = data.draw(st.integers(0, 3))
    read = []
    for rank in range(world):
        stream = splitter.open(
            outputs_of[sink],
            where=where,
            decode=False,
            streaming=True,
            rank=rank,
            world_size=world,
            **options,
        )
        stream.set_epoch(epoch)
        read.append(names([*stream]))
    expected = splitter.read_manifest(outputs_of[sink])
    expected = expected if where is None else expected.query(where)
    assert Counter(itertools.chain(*read)) == Counter(expected["output"])
    assert max(map(len, read)) - min(map(len, read)) <= 1


def test_ranks_with_workers_read_every_output_once(outputs: Path):
    """Real workers of two ranks, the second of which has fewer of them."""
    samples = []
    for rank in range(2):
        stream = splitter.open(outputs, streaming=True, shuffle=True, buffer=7, rank=rank, world_size=2)
        loader = DataLoader(
            stream,
            batch_size=3,
            num_workers=2 - rank,
            collate_fn=stream.collate_fn,
            multiprocessing_context="fork",
        )
        samples += [sample for batch in loader for sample in batch]
    manifest = splitter.read_manifest(outputs)
    assert sorted(names(samples)) == sorted(manifest["output"])
    by_name = manifest.set_index("output")
    assert all(sample["content"].shape[1] == by_name.loc[sample["output"], "frames"] for sample in samples)


def test_without_shuffling_the_order_is_that_of_the_manifest(outputs: Path):
    """For one who reads alone; each sample as it is by its number."""
    dataset = splitter.open(outputs)
    for number, sample in enumerate(splitter.open(outputs, streaming=True)):
        expected = dataset[number]
        assert torch.equal(sample.pop("content"), expected.pop("content"))
        assert sample == expected
    assert number == len(dataset) - 1


def test_shuffling_mixes_shards_and_depends_on_seed_and_epoch(outputs: Path):
    """The same seed and epoch give the same order; another of either, another one."""

    def order(epoch: int = 0, **options: int | None) -> list[object]:
        stream = splitter.open(outputs, streaming=True, shuffle=True, decode=False, **options)
        stream.set_epoch(epoch)
        return names([*stream])

    manifest = splitter.read_manifest(outputs)["output"].tolist()
    first = order()
    assert first == order() == order(seed=None)
    orders = [manifest, first, order(epoch=1), order(seed=1), order(buffer=4)]
    assert len({tuple(one) for one in orders}) == len(orders)
    assert {tuple(sorted(one)) for one in orders} == {tuple(sorted(manifest))}
    place = {name: number for number, name in enumerate(manifest)}
    # of a small buffer's first samples several shards have given some
    assert len({place[name] // 5 for name in order(buffer=4)[:8]}) > (1 if outputs.name != "files" else 0)


def test_workers_that_live_on_hear_of_the_next_epoch(outputs_of: dict[str, Path]):
    """set_epoch reaches persistent workers."""
    stream = splitter.open(outputs_of["webdataset"], streaming=True, shuffle=True, decode=False)
    loader = DataLoader(
        stream, batch_size=None, num_workers=1, persistent_workers=True, multiprocessing_context="fork"
    )
    orders = []
    for epoch in (0, 1, 0):
        stream.set_epoch(epoch)
        orders.append(names([*loader]))
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


def test_a_stream_can_be_pickled_before_there_are_ranks(outputs_of: dict[str, Path]):
    """As programs do that start one process for each rank: it asks in the process where it is read."""
    stream = pickle.loads(pickle.dumps(splitter.open(outputs_of["files"], streaming=True)))  # noqa: S301 - our own
    assert stream.__getstate__()["_reader_rank"] is None
    given_ = splitter.open(outputs_of["files"], streaming=True, rank=1, world_size=3)
    again = pickle.loads(pickle.dumps(given_))  # noqa: S301
    assert names([*again]) == names([*given_])


RANK = """
import os, sys, torch, splitter
from torch.utils.data import DataLoader
if __name__ == "__main__":
    output, rank, meeting = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    stream = splitter.open(output, streaming=True, shuffle=True)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    start = ("fork", "spawn")[rank]
    loader = DataLoader(stream, batch_size=None, num_workers=2, multiprocessing_context=start)
    print(*[sample["output"] for sample in loader], sep="\\n")
    torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_torch_distributed_is_asked_where_nothing_is_said(outputs_of: dict[str, Path], tmp_path: Path):
    """Two real ranks with two workers each, of which those of the second are not forked."""
    import subprocess
    import sys

    (tmp_path / "rank.py").write_text(RANK)
    output = outputs_of["webdataset"]
    checkout = str(Path(splitter.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": checkout, "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen(
            [sys.executable, tmp_path / "rank.py", output, str(rank), tmp_path / "meeting"],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=120)[0].splitlines() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert Counter(said[0] + said[1]) == Counter(splitter.read_manifest(output)["output"])
    assert abs(len(said[0]) - len(said[1])) <= 1


# -- what was not read by splitter before --------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "sink"), [("tar", "webdataset"), ("parquet", "parquet")])
def test_shards_that_other_tools_have_written_are_read(
    outputs_of: dict[str, Path], tmp_path: Path, kind, sink
):
    """Those of tarfile and pyarrow, with the columns that the sinks write: an oracle for both."""
    shutil.copytree(outputs_of["files"] / ".splitter", tmp_path / "files/.splitter")
    written = as_shards(outputs_of["files"], tmp_path / "shards", kind, per_shard=7)
    ours = splitter.open(outputs_of[sink], decode=False)
    theirs = splitter.open(written, decode=False, streaming=True)
    assert [sample["content"] for sample in theirs] == [sample["content"] for sample in ours]


@pytest.mark.parametrize("sink", SINKS)
def test_an_object_store(sounds: Path, outputs_of: dict[str, Path], s3: Bucket, sink: str, capfd):
    """What was run to a bucket is opened there, by workers too, and counted: as in a folder."""
    url = s3.url("out")
    run(sounds, url, sink)
    local = splitter.open(outputs_of[sink])
    dataset = splitter.open(url)
    assert torch.equal(dataset[5]["content"], local[5]["content"])
    stream = splitter.open(url, streaming=True, shuffle=True)
    loader = DataLoader(stream, batch_size=None, num_workers=2, multiprocessing_context="fork")
    samples = {sample["output"]: sample for sample in loader}
    assert sorted(samples) == sorted(splitter.read_manifest(outputs_of[sink])["output"])
    for number in (0, 3, 11):
        expected = local[number]
        found = samples[expected["output"]]
        assert torch.equal(found.pop("content"), expected.pop("content"))
        assert found == expected
    if sink == "files":
        assert here(capfd, "split", url, "--train", "0.5", "--test", "0.5").code == 0
        split = splitter.read_manifest(url)
        assert (
            split["split"].tolist()
            == splitter.split(split.drop(columns="split"), train=0.5, test=0.5)["split"].tolist()
        )
        assert here(capfd, "stats", url).out == here(capfd, "stats", outputs_of[sink]).out
