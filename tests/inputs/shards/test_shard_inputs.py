"""Inputs that stand in tar archives: which there are, their labels, and what is wrong with some."""

import contextlib
import gzip
import io
import json
import os
import tarfile
import tempfile
from pathlib import Path

import pytest
from copying import Copy
from doors import SHARED, here, program, read_table, tree
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth
from tar_archives import CONTENTS, FOLDERS, KINDS, PARTS, key_of, tar_bytes, write_tar

from splitter import InputList
from splitter.errors import Refused, UnreadableInput
from splitter.inputs.shards import archives as archive_inputs

COPY = ("--recipe", f"{SHARED}/copying.py:Copy")
HERE = ("--workers", "0", "--quiet")


def sample(key: str, **fields: str | bytes) -> list[tuple[str, bytes]]:
    """The members of a sample."""
    return [
        (f"{key}.{name}", content if isinstance(content, bytes) else content.encode())
        for name, content in fields.items()
    ]


def shard(path: Path, keys: str) -> Path:
    """A sample for each letter: its sound, and a text."""
    path.parent.mkdir(exist_ok=True)
    samples = [sample(key, wav=f"sound {key}", txt=f"text {key}\n") for key in keys]
    return write_tar(path, [member for members in samples for member in members])


def inputs_of(source: object, **options: object) -> dict[str, tuple[bytes, dict[str, str]]]:
    """What a dataset gives for each input: its content, and its columns."""
    dataset = Copy(InputList(source, **options))
    found = {}
    for number in range(len(dataset)):
        (output,), _ = dataset[number]
        assert isinstance(output.content, bytes)
        columns = dict(zip(dataset._table.header, _row(dataset, number), strict=True))
        found[columns.pop("input")] = output.content, columns
    return found


def _row(dataset: Copy, number: int) -> list[str]:
    from splitter.text.csv import parse_rows

    return parse_rows(dataset._table.text(number))[0]


# -- which inputs there are ------------------------------------------------------------------------------


def test_a_sample_is_an_input_and_its_other_fields_are_columns(folder):
    members = [
        *sample(
            "a/x", wav=b"one", txt="hello\n", cls="7", json='{"n": 1.50, "at": {"y": [1, 2]}, "z": null}'
        ),
        *sample("a/y", wav=b"two", JSON='{"n": "007"}', npy=b"\x93NUMPY", pyd=b"cos\nsystem\n"),
    ]
    found = inputs_of(write_tar(folder / "s.tar", members))
    assert found == {
        "s.tar/a/x.wav": (b"one", {"txt": "hello", "cls": "7", "n": "1.50", "at.y": "[1, 2]", "z": ""}),
        "s.tar/a/y.wav": (b"two", {"txt": "", "cls": "", "n": "007", "at.y": "", "z": ""}),
    }


def test_numbers_in_json_keep_their_digits_at_any_depth(folder):
    text = '{"n": 2.50, "in": {"n": 2.50, "list": [0.10, 1e5, {"n": 3.141592653589793238462}]}}'
    ((_, labels),) = inputs_of(write_tar(folder / "s.tar", sample("x", wav="", json=text))).values()
    assert labels == {"n": "2.50", "in.n": "2.50", "in.list": '[0.10, 1e5, {"n": 3.141592653589793238462}]'}


def test_values_of_json_whose_columns_would_be_the_same(folder):
    """None is lost: the second gets another name, and so does that of another object or field."""
    members = sample(
        "x", wav="", txt="text", json='{"n.x": "dot", "n": {"x": "in"}, "txt": 1}', jsn='{"n.x": 2}'
    )
    ((_, labels),) = inputs_of(write_tar(folder / "s.tar", members)).values()
    assert labels == {"txt": "text", "n.x": "dot", "json.n.x": "in", "json.txt": "1", "json.json.n.x": "2"}


@pytest.mark.parametrize("pattern", ["s-{0..2}.tar", "s-*.tar", "s-{0,1,2}.tar", "file://{}/s-?.tar"])
def test_patterns_stand_for_shards_in_order(folder, monkeypatch, pattern):
    monkeypatch.chdir(folder)
    for number, keys in enumerate(("ab", "cd", "e")):
        shard(folder / f"s-{number}.tar", keys)
    source = pattern.format(folder) if "file:" in pattern else pattern
    assert [*inputs_of(source)] == [
        f"s-{number}.tar/{key}.wav" for number, keys in enumerate(("ab", "cd", "e")) for key in keys
    ]


def test_shards_of_a_run_come_in_the_order_of_its_manifest(folder):
    """Also those that hold what had no room, whose names are sorted before that of the first."""
    names = [f"shard-00000{number}.tar" for number in ("0", "0-1", "0-2", "0-10", "1", "1-1")]
    for name in names:
        shard(folder / name, "a")
    assert [*inputs_of(folder / "shard-*.tar")] == [f"{name}/a.wav" for name in names]


def test_the_same_shard_is_called_the_same_by_any_pattern(folder):
    shard(folder / "x" / "s-0.tar", "a")
    patterns = ("x/s-0.tar", "x/s-*.tar", "x/s-{0..0}.tar")
    assert [[*inputs_of(folder / pattern)] for pattern in patterns] == [["s-0.tar/a.wav"]] * 3
    assert [*inputs_of(folder / "*" / "s-0.tar")] == ["x/s-0.tar/a.wav"]


@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("packed", [False, True])
def test_samples_agree_with_webdatasets_own_reader(folder, kind, packed):
    """Keys, fields and contents of archives with folders, dots in keys, and long names."""
    from webdataset.tariterators import group_by_keys, tar_file_iterator

    members = [
        *sample("v1.0/a", **{"seg.wav": b"1", "Txt": "x"}),
        *sample("deep/" * 20 + "b", **{"seg.wav": b"2" * 9000, "txt": "ü"}),
        *sample("c d'e", **{"seg.wav": b"", "txt": ""}),
    ]
    path = folder / ("s.tar.gz" if packed else "s.tar")
    content = tar_bytes(members, kind)
    path.write_bytes(gzip.compress(content) if packed else content)
    with path.open("rb") as file:
        theirs = {
            f"{path.name}/{one['__key__']}.seg.wav": (one["seg.wav"], {"txt": one["txt"].decode()})
            for one in group_by_keys({**one, "__url__": ""} for one in tar_file_iterator(file))
        }
    assert inputs_of(path) == theirs
    assert len(theirs) == 3


NAMES = st.builds(lambda folders, base: "/".join([*folders, base]), FOLDERS, PARTS).filter(
    lambda name: not any(part.startswith((".", "__")) or len(part) > 240 for part in name.split("/"))
)
FIELDS = st.sampled_from(["wav", "json", "seg.png", "cls"])
DRAWN = st.lists(
    st.tuples(NAMES, st.dictionaries(FIELDS, CONTENTS, min_size=1)),
    max_size=6,
    unique_by=lambda one: key_of(f"{one[0]}.x").lower(),
)


@given(DRAWN, KINDS, st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=depth(20))
def test_every_wav_of_any_archive_is_an_input(samples, kind, packed, chance):
    """Whatever the names and the order of members; by Python's tarfile."""
    members = [(f"{key}.{field}", content) for key, fields in samples for field, content in fields.items()]
    chance.shuffle(members)
    inside = [name for name, _ in members]
    members = [(name, content) for name, content in members if not _meets_another(name, inside)]
    if not any(name.endswith(".wav") for name, _ in members):
        return
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "s.tar")
        content = tar_bytes(members, kind)
        path.write_bytes(gzip.compress(content) if packed else content)
        found = {name: content for name, (content, _) in inputs_of(path, member="wav").items()}
    assert found == {f"s.tar/{name}": content for name, content in members if name.endswith(".wav")}


def _meets_another(name: str, names: list[str]) -> bool:
    """Whether a run would refuse it: its outputs would go where those of another go."""
    key = key_of(name).lower()
    return any(key_of(other).lower().startswith(f"{key}/") for other in names)


def test_members_of_a_sample_need_not_stand_together(folder):
    """As `tar cf` takes the files of a folder in any order."""
    members = [("a.txt", b"A"), ("b.wav", b"2"), ("a.wav", b"1"), ("b.txt", b"B")]
    assert inputs_of(write_tar(folder / "s.tar", members)) == {
        "s.tar/b.wav": (b"2", {"txt": "B"}),
        "s.tar/a.wav": (b"1", {"txt": "A"}),
    }


def test_hidden_members_and_those_of_webdataset_itself_are_passed_over(folder):
    members = [("._a.wav", b"-"), ("__meta__/x.wav", b"-"), ("b/.c.wav", b"-"), ("a.wav", b"1")]
    assert [*inputs_of(write_tar(folder / "s.tar", members))] == ["s.tar/a.wav"]


@pytest.mark.parametrize(
    ("fields", "member", "chosen"),
    [
        ({"wav": "1", "jpg": "2"}, None, "wav"),
        ({"jpg": "1", "json": "{}", "cls": "3"}, None, "jpg"),
        ({"txt": "1"}, None, "txt"),
        ({"WAV": "1", "txt": "2"}, "wav", "WAV"),
        ({"wav": "1", "txt": "2"}, "flac;txt", "txt"),
        ({"pyd": "1", "txt": "2"}, "pyd", "pyd"),
    ],
)
def test_the_input_of_a_sample(folder, fields, member, chosen):
    found = inputs_of(write_tar(folder / "s.tar", sample("a", **fields)), member=member)
    assert [*found] == [f"s.tar/a.{chosen}"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"wav": "1", "flac": "2"}, "sample 'a' has wav, flac; choose the input with --member 'wav'"),
        ({"jpg": "1", "png": "2", "txt": "3"}, "sample 'a' has jpg, png; choose"),
        ({"txt": "1", "cls": "2"}, "sample 'a' has txt, cls; choose"),
    ],
)
def test_an_input_that_is_not_clear_is_refused_with_the_fields(folder, fields, named):
    with pytest.raises(Refused, match=named):
        inputs_of(write_tar(folder / "s.tar", sample("a", **fields)))


def test_a_sample_without_the_field_is_left_out_and_counted(folder, capfd):
    shards = write_tar(folder / "s.tar", [*sample("a", wav=b"1"), *sample("b", json="{}"), ("c.json", b"{}")])
    said = here(capfd, "run", shards, *COPY, "--output", folder / "out", "--workers", "0")
    assert said.code == 0
    assert "2 samples have no input besides the labels: left out" in said.err
    assert [row["input"] for row in read_table(folder / "out" / "manifest.csv")] == ["s.tar/a.wav"]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (
            sample("a", wav="1", txt="2"),
            ["--member", "wva"],
            "no sample has the field of --member 'wva'; the first has",
        ),
        ([], [], "holds no sample; check DATASET"),
    ],
)
def test_shards_without_an_input_are_refused(folder, content, options, message, capfd):
    """A slip of the keyboard takes nothing away, also where another DATASET has inputs."""
    meant = write_tar(folder / "t.tar", sample("a", wav="1"))
    other = write_tar(folder / "s.tar", content)
    run = ["run", meant, other, *COPY, "--output", folder / "out", "--workers", "0", "--prune"]
    said = here(capfd, *run, *options)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert message in said.err
    assert ("t.tar" if options else "s.tar") in said.err
    assert not (folder / "out").exists()


def test_columns_of_the_manifests_own_get_a_prefix(folder):
    """The shards of an earlier run are read as its manifest would be: labels keep their names."""
    own = {"output": "x", "size": "1", "checksum": "c", "part": 2, "from_size": 3}
    row = {"input": "a.wav", "speaker": "s", **own}
    shards = write_tar(folder / "s.tar", sample("0-0", wav=b"1", json=json.dumps(row)))
    ((_, columns),) = inputs_of(shards).values()
    assert columns == {
        "from_input": "a.wav",
        "speaker": "s",
        "from_output": "x",
        "from_size": "1",
        "from_checksum": "c",
        "from_part": "2",
        "from_from_size": "3",
    }


def test_options_of_other_sources_are_refused(folder):
    shards, listed = shard(folder / "s.tar", "a"), folder / "list.csv"
    listed.write_text("input\na\n")
    for option, value in {"column": "x", "root": str(folder), "delimiter": ";", "pattern": "*"}.items():
        with pytest.raises(Refused, match=f"--{option}"):
            inputs_of(shards, **{option: value})
    for source in (listed, folder, ["a"]):
        with pytest.raises(Refused, match="--member 'wav' is only for tar archives and Parquet"):
            inputs_of(source, member="wav")


# -- runs ------------------------------------------------------------------------------------------------


def sound(key: str, number: int) -> bytes:
    return f"{key}{number}".encode() * (1 << (21 if key == "c" else 4))


@pytest.fixture
def shards(folder: Path) -> str:
    """Three shards, one of them packed, with a large member in each."""
    for number in range(3):
        samples = [sample(f"{key}{number}", wav=sound(key, number), txt=key) for key in "abcdefgh"]
        content = tar_bytes([member for members in samples for member in members])
        name = f"s-{number}.tar{'.gz' if number == 1 else ''}"
        (folder / name).write_bytes(gzip.compress(content, 1) if number == 1 else content)
    return f"{folder}/s-*.tar*"


@pytest.mark.slow
def test_outputs_are_the_same_for_any_number_of_workers_and_way_of_reading(folder, shards, capfd):
    trees = []
    for number, options in enumerate(
        [
            ("--workers", "0"),
            ("--workers", "1", "--how", "path"),
            ("--workers", "4", "--how", "open", "--batch-size", "3"),
            ("--recipe", f"{SHARED}/copying.py:CopyTogether", "--batch-size", "5"),
        ]
    ):
        output = folder / f"out {number}"
        said = here(capfd, "run", shards, *COPY, "--output", output, "--quiet", *options)
        assert (said.code, said.err) == (0, "")
        trees.append(tree(output))
        assert not [*(output / ".splitter" / "staging").iterdir()]
    assert len(trees[0]) == 25
    assert trees[1:] == trees[:1] * 3
    for row in read_table(folder / "out 0" / "manifest.csv"):
        key, number = row["file_name"][0], int(row["file_name"][1])
        content = (folder / "out 0" / row["output"]).read_bytes()
        assert content == sound(key, number)
        assert row["txt"] == key


class Room(Copy):
    """Looks for rows of shards that still wait in files without names, as `["s-0.tar/a0.wav", {...}]`."""

    def process(self, input_file):
        waiting = 0
        for descriptor in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                waiting += (
                    os.readlink(descriptor).endswith(" (deleted)") and b'["s-' in descriptor.read_bytes()
                )
        return [], {"waiting": waiting}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_rows_of_shards_take_no_room_once_they_are_listed(folder, shards):
    """As there may be millions, with all their labels, and the run may last for days."""
    manifest = Room(shards).run(folder / "out", workers=0, quiet=True)
    assert [*manifest["waiting"]] == [0] * 24


@pytest.mark.slow
def test_each_shard_is_opened_once_to_look_and_once_to_read(folder, shards):
    """Whatever the size of batches."""
    # the output has folders of these names, which are opened from the folder above them
    script = """
import os, sys
opened = []
def note(event, args):
    if event == "open" and os.path.isabs(str(args[0])):
        opened.append(args[0])
sys.addaudithook(note)
from splitter.cli.main import exit_code
assert exit_code(sys.argv[1:]) == 0
print([sum(name.endswith(one) for name in opened) for one in ("s-0.tar", "s-1.tar.gz", "s-2.tar")])
"""
    arguments = ("run", shards, *COPY, "--output", folder / "out", "--batch-size", "2", *HERE)
    said = program(*arguments, python=("-c", script))
    # so few shards are looked at in this process
    assert (said.err, said.out) == ("", "[2, 2, 2]\n")


def test_a_second_run_does_only_what_changed(folder, capfd):
    """A shard that was written anew is done anew, and no other."""
    shard(folder / "s-0.tar", "ab")
    shard(folder / "s-1.tar", "cd")
    arguments = ("run", f"{folder}/s-*.tar", *COPY, "--output", folder / "out", "--workers", "0")
    assert here(capfd, *arguments).code == 0
    assert "4 inputs, all finished" in here(capfd, *arguments).err
    write_tar(folder / "s-1.tar", [*sample("c", wav=b"other", txt="C"), *sample("e", wav=b"new", txt="E")])
    said = here(capfd, *arguments)
    assert (said.code, "1 finished input changed" in said.err) == (0, True)
    rows = read_table(folder / "out" / "manifest.csv")
    assert [(row["input"], row["txt"]) for row in rows] == [
        ("s-0.tar/a.wav", "text a"),
        ("s-0.tar/b.wav", "text b"),
        ("s-1.tar/c.wav", "C"),
        ("s-1.tar/e.wav", "E"),
    ]
    assert (folder / "out" / "s-1.tar" / "c" / "copy").read_bytes() == b"other"


def test_splitter_manifest_needs_no_shards(folder, capfd, shards):
    output = folder / "out"
    assert here(capfd, "run", shards, *COPY, "--output", output, *HERE).code == 0
    before = (output / "manifest.csv").read_bytes()
    (output / "manifest.csv").unlink()
    for path in folder.glob("s-*"):
        path.unlink()
    assert here(capfd, "manifest", output).code == 0
    assert (output / "manifest.csv").read_bytes() == before


def test_a_shard_that_changes_during_the_run_is_an_error_of_its_inputs(folder):
    dataset = Copy(str(shard(folder / "s.tar", "ab")))
    assert len(dataset) == 2
    shard(folder / "s.tar", "abc")
    with pytest.raises(UnreadableInput, match=r"s\.tar: has changed since the run began"):
        dataset[0]


# -- what can be wrong -----------------------------------------------------------------------------------


def entry(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def hostile_tar(path: Path, *infos: tarfile.TarInfo) -> Path:
    """An archive of one good sample, then these, then another good one."""
    with tarfile.open(path, "w") as tar:
        for info in (entry("good.wav", size=4), *infos, entry("last.wav", size=4)):
            tar.addfile(info, io.BytesIO(b"good" * (info.size // 4 + 1)))
    return path


LONG, DEEP = "n" * 300 + ".wav", "nn/" * 900 + "x.wav"
HOSTILE = {
    "a parent": ([entry("../x.wav", size=4)], "%2E%2E/x.wav", "member '../x.wav' leads out of its folder"),
    "a parent within": ([entry("a/../../x.wav", size=4)], "a/%2E%2E/%2E%2E/x.wav", "leads out of its folder"),
    "an absolute name": ([entry("/etc/x.wav", size=4)], "%2Fetc/x.wav", "begins with a slash"),
    "a symbolic link": (
        [entry("x.wav", tarfile.SYMTYPE, linkname="/etc/passwd")],
        "x.wav",
        "member 'x.wav' is a symbolic link, and only plain files are read",
    ),
    "a hard link": ([entry("x.wav", tarfile.LNKTYPE, linkname="good.wav")], "x.wav", "is a hard link"),
    "a device": ([entry("x.wav", tarfile.CHRTYPE, devmajor=1, devminor=8)], "x.wav", "is a device"),
    "a FIFO": ([entry("x.wav", tarfile.FIFOTYPE)], "x.wav", "is a FIFO"),
    "an unknown kind": ([entry("x.wav", b"Z", size=4)], "x.wav", "is of the unknown kind b'Z'"),
    "a member twice": ([entry("x.wav", size=4)] * 2, "x.wav", "member 'x.wav' occurs twice"),
    "a member twice by case": ([entry("x.wav", size=4), entry("x.WAV", size=4)], "x.wav", "occurs twice"),
    "a link among labels": (
        [entry("x.wav", size=4), entry("x.txt", tarfile.SYMTYPE, linkname="good.wav")],
        "x.wav",
        "member 'x.txt' is a symbolic link",
    ),
    "a name too long": ([entry(LONG, size=4)], LONG, "is too long for a file"),
    "a path too long": ([entry(DEEP, size=4)], DEEP, "is too long for a file"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_member_is_one_error_and_all_others_are_done(folder, capfd, case):
    infos, name, message = HOSTILE[case]
    (folder / "in").mkdir()
    hostile_tar(folder / "in" / "s.tar", *infos)
    before = tree(folder)
    said = here(capfd, "run", folder / "in" / "s.tar", *COPY, "--output", folder / "out", *HERE)
    assert said.code == 1
    (error,) = read_table(folder / "out" / "errors.csv")
    assert (error["input"], error["error"], error["traceback"]) == (f"s.tar/{name}", "UnreadableInput", "")
    assert message in error["message"]
    assert error["message"].startswith(f"{folder}/in/s.tar: ")
    rows = read_table(folder / "out" / "manifest.csv")
    assert [row["input"] for row in rows] == ["s.tar/good.wav", "s.tar/last.wav"]
    after = {path: content for path, content in tree(folder).items() if not path.startswith("out/")}
    assert after == before


@pytest.mark.parametrize(
    "name", ["new\nline.wav", "tab\t,\"quote'.wav", "\udcff\udcfe.wav", "ü" * 120 + ".wav", "-.wav"]
)
def test_strange_names_are_only_names(folder, capfd, name):
    write_tar(folder / "s.tar", [(name, b"content")])
    assert here(capfd, "run", folder / "s.tar", *COPY, "--output", folder / "out", *HERE).code == 0
    (row,) = read_table(folder / "out" / "manifest.csv")
    assert row["input"] == f"s.tar/{name}"
    assert row["file_name"] == name
    assert (folder / "out" / row["output"]).read_bytes() == b"content"


def test_a_nul_in_a_name(folder, capfd):
    """PAX headers can hold one; the rest of the name is not lost for what is said."""
    info = entry("x.wav", size=4, pax_headers={"path": "x\0y.wav"})
    hostile_tar(folder / "s.tar", info)
    assert here(capfd, "run", folder / "s.tar", *COPY, "--output", folder / "out", *HERE).code == 1
    (error,) = read_table(folder / "out" / "errors.csv")
    assert error["input"] == "s.tar/x%00y.wav"
    assert "contains a NUL" in error["message"]


def damaged(kind: str) -> bytes:
    """An archive of samples a to f that is wrong from the fourth on."""
    samples = [sample(key, wav=key * 600, txt=key) for key in "abcdef"]
    members = [member for members in samples for member in members]
    content = bytearray(tar_bytes(members, tarfile.GNU_FORMAT))
    fourth = 3 * (512 + 1024 + 512 + 512)
    match kind:
        case "cut in a content":
            del content[fourth + 700 :]
        case "cut in a header":
            del content[fourth + 100 :]
        case "cut between members":
            del content[fourth + 512 + 1024 :]
        case "cut behind a sample":
            del content[fourth + 512 + 1024 + 1024 :]
        case "garbage":
            content[fourth : fourth + 512] = b"garbage " * 64
        case "a wrong checksum":
            content[fourth + 20] ^= 1
        case "a huge size":
            info = entry("d.wav", size=1 << 50)
            content[fourth : fourth + 512] = info.tobuf(tarfile.GNU_FORMAT)
        case "a negative size":
            content[fourth + 124 : fourth + 136] = b"\xff" * 12
            checksum = 256 + sum(content[fourth : fourth + 148]) + sum(content[fourth + 156 : fourth + 512])
            content[fourth + 148 : fourth + 156] = b"%06o\0 " % checksum
        case "an old sparse file":
            content[fourth : fourth + 512] = entry("d.wav", tarfile.GNUTYPE_SPARSE, size=4).tobuf()
    return bytes(content)


# and which samples are done: the last one that was read may have lost a member
DAMAGES = {
    "cut in a content": "abc",
    "cut between members": "abc",
    "cut behind a sample": "abc",
    "a huge size": "abc",
    "cut in a header": "ab",
    "garbage": "ab",
    "a wrong checksum": "ab",
    "a negative size": "ab",
    "an old sparse file": "ab",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", DAMAGES)
def test_of_a_damaged_archive_what_stands_before_is_done(folder, capfd, kind, packed):
    content = damaged(kind)
    name = "s.tar.gz" if packed else "s.tar"
    (folder / name).write_bytes(gzip.compress(content) if packed else content)
    said = here(capfd, "run", folder / name, *COPY, "--output", folder / "out", *HERE)
    assert said.code == 1
    (error,) = read_table(folder / "out" / "errors.csv")
    assert (error["input"], error["error"]) == (f"{name}/(rest)", "UnreadableInput")
    assert error["message"].startswith(f"{folder}/{name}: ")
    done = [row["input"] for row in read_table(folder / "out" / "manifest.csv")]
    assert done == [f"{name}/{key}.wav" for key in DAMAGES[kind]]
    refused = here(capfd, "run", folder / name, *COPY, "--output", folder / "out", *HERE, "--prune")
    assert refused.code == 2
    assert "--prune" in refused.err
    assert name in refused.err


def test_a_packed_archive_that_is_cut_off(folder, capfd):
    content = [sample(key, wav=os.urandom(30_000)) for key in "abc"]
    whole = gzip.compress(tar_bytes([member for members in content for member in members]))
    (folder / "s.tgz").write_bytes(whole[:-40_000])
    assert here(capfd, "run", folder / "s.tgz", *COPY, "--output", folder / "out", *HERE).code == 1
    (error,) = read_table(folder / "out" / "errors.csv")
    assert error["input"] == "s.tgz/(rest)"
    assert "cut off" in error["message"]
    assert [row["input"] for row in read_table(folder / "out" / "manifest.csv")] == ["s.tgz/a.wav"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.tar", b"", "is empty"),
        ("s.tar", b"no archive" * 100, "is not a tar archive"),
        ("s.tar.gz", gzip.compress(b"no archive" * 100, mtime=0), "is not a tar archive"),
        ("s.tar.bz2", b"BZh91AY" * 100, "is not a tar archive"),
        ("s.tar", None, "no such file"),
        ("s-{0..1}.tar", None, "s-0.tar"),
        ("s-*.tar", None, "no file matches this pattern"),
        ("pipe:cat s.tar", None, "commands are not run"),
    ],
)
def test_what_is_no_archive_is_refused(  # noqa: PLR0913, PLR0917 - fixtures, and the fields of a case
    folder, capfd, monkeypatch, name, content, message
):
    monkeypatch.chdir(folder)
    if content is not None:
        (folder / name).write_bytes(content)
    said = here(capfd, "run", name, *COPY, "--output", folder / "out", *HERE)
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert message in said.err
    assert not (folder / "out").exists()


def test_a_bomb_is_not_unpacked_into_scratch_space(folder, capfd, monkeypatch):
    """A member larger than the room there is, is an error of that input; nothing is written."""
    size = 1 << 27
    info = entry("bomb.wav", size=size)
    with gzip.open(folder / "s.tar.gz", "wb", compresslevel=1) as file:
        file.write(info.tobuf())
        file.writelines(bytes(1 << 20) for _ in range(size >> 20))
        file.write(bytes(1024))
    room = os.statvfs_result((4096, 4096, 1000, 100, 100, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: room)
    assert here(capfd, "run", folder / "s.tar.gz", *COPY, "--output", folder / "out", *HERE).code == 1
    (error,) = read_table(folder / "out" / "errors.csv")
    assert error["input"] == "s.tar.gz/bomb.wav"
    assert "takes 134,217,728 bytes, but scratch space has only 409,600" in error["message"]


def test_labels_that_would_fill_the_memory_are_refused(folder, capfd, monkeypatch):
    """What is packed may unpack to anything; where it is the input it is not in memory."""
    monkeypatch.setattr(archive_inputs, "MOST_LABELS", 1000)
    members = [(f"{number}.txt", b"x" * 400) for number in range(3)]
    write_tar(folder / "s.tar", members)
    said = here(capfd, "run", folder / "s.tar", *COPY, "--output", folder / "out", *HERE)
    assert (said.code, len(said.lines)) == (2, 1)
    assert (
        "s.tar: the labels of its samples are more than 1,000 bytes; if they are the inputs, use --member"
        in said.err
    )
    assert len(inputs_of(folder / "s.tar", member="flac; txt")) == 3


def test_a_message_names_the_input_and_not_a_scratch_file(folder, capfd):
    write_tar(folder / "s.tar", sample("a/x", wav=b"no sound"))
    assert here(capfd, "run", folder / "s.tar", "--output", folder / "out", *HERE).code == 1
    (error,) = read_table(folder / "out" / "errors.csv")
    assert error["message"].startswith("s.tar/a/x.wav: ")


# -- as a dataset of torch -------------------------------------------------------------------------------


def test_items_are_tried_without_leaving_anything(folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
    (folder / "tmp").mkdir()
    for how in ("bytes", "open", "path"):
        dataset = Copy(str(shard(folder / "s.tar", "abc")), how=how)
        assert len(dataset) == 3
        assert [dataset[at][0][0].content for at in (2, 0, -2)] == [b"sound c", b"sound a", b"sound b"]
        del dataset
    assert not [*(folder / "tmp").iterdir()]
