"""`splitter export`, whatever the format: which pieces, where their files are, and a folder that is whole."""

import contextlib
import csv
import errno
import fcntl
import json
import os
import re
import sys
import tracemalloc
from pathlib import Path

import fsspec
import numpy as np
import pytest
import soundfile
from doors import CHECKOUT, here, read_table, tree

import splitter
from splitter import InputFile, ProcessorDataset
from splitter.errors import Refused
from splitter.exports.annotation import AnnotationExport
from splitter.exports.base import Export
from splitter.exports.keys import key_of
from splitter.exports.sorting import SortedFile
from splitter.exports.target import ExportTarget
from splitter.recipes.chunk import Chunk
from splitter.registry import EXPORTS

RATE = 8000
SINKS = ("files", "webdataset", "parquet")


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The format `names` of another package can be imported in this process."""
    monkeypatch.syspath_prepend(CHECKOUT / "tests" / "outside")
    monkeypatch.delitem(sys.modules, "outside_package", raising=False)


def recordings(folder: Path) -> Path:
    """Two recordings, of 2.5 s and 1 s, with a speaker each."""
    chance = np.random.default_rng(7)
    (folder / "in" / "b c").mkdir(parents=True)
    for name, seconds in (("a", 2.5), ("b c/é", 1.0)):
        sound = chance.integers(-9000, 9000, round(RATE * seconds), dtype="int16")
        soundfile.write(folder / "in" / f"{name}.wav", sound, RATE)
    (folder / "list.csv").write_text("input,speaker,split\nin/a.wav,ann,train\nin/b c/é.wav,bob,test\n")
    return folder / "list.csv"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an output folder of each sink, named like it: three pieces of a, and one of é."""
    folder = tmp_path_factory.mktemp("made")
    for sink in SINKS:
        dataset = Chunk(
            folder / "list.csv" if sink != "files" else recordings(folder), seconds=1, tail="keep"
        )
        splitter.run(dataset, folder / sink, sink=sink, workers=0, quiet=True, keep="frames > 4000")
    return folder


def lines(export: Path, name: str = "names.txt") -> list[list[str]]:
    return [line.split("\t") for line in (export / name).read_text().splitlines()]


def everything(folder: Path, **options) -> list[list[str]]:
    """The lines of an export `names`, of all splits."""
    splitter.export(folder, "names", folder.parent / "all", **options)
    return [
        line for name in ("names_train.txt", "names_test.txt") for line in lines(folder.parent / "all", name)
    ]


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("absolute", [False, True])
def test_each_path_leads_to_the_content(made: Path, sink: str, absolute: bool):
    """Of all pieces that are kept: their own files if there are any, else files written from shards."""
    export = made / "all"
    rows = [row for row in read_table(made / sink / "manifest.csv") if row["kept"] == "True"]
    found = everything(made / sink, absolute=absolute)
    assert len(found) == len(rows) == 3
    for row, (_, path, _, speaker) in zip(rows, found, strict=True):
        assert os.path.isabs(path) == absolute
        assert (export / path).read_bytes() == splitter.read_output(row, made / sink)
        assert speaker == row["speaker"]
    copied = 0 if sink == "files" else sum(int(row["size"]) for row in rows)
    done = splitter.export(made / sink, "names", export)
    assert (done.pieces, done.files, done.linked, done.copied) == (3, 2, 0, copied)


@pytest.mark.parametrize("sink", SINKS)
def test_a_format_that_needs_files_gets_links(made: Path, sink: str):
    """Hard links to loose files; what is in a shard is written out."""
    done = splitter.export(made / sink, "names", made / "linked", linked=True)
    assert (done.linked > 0, done.copied > 0) == (sink == "files", sink != "files")
    for _, path, *_ in lines(made / "linked", "names_train.txt"):
        assert ((made / "linked" / path).stat().st_nlink > 1) == (sink == "files")
    assert here_verified(made / sink)


def here_verified(folder: Path) -> bool:
    return splitter.verify(folder, workers=1).exit_code == 0


def test_which_pieces(made: Path):
    """Those that are kept, unless all are asked for; those of a condition."""
    assert len(everything(made / "files", all_rows=True)) == 4
    done = splitter.export(made / "files", "names", made / "some", where="speaker == 'bob'")
    assert done.pieces == 1
    assert [name for name in os.listdir(made / "some") if name[0] != "."] == ["names_test.txt"]


def test_the_same_again(made: Path):
    """Two exports of the same outputs are the same bytes."""
    for name in ("one", "two"):
        splitter.export(made / "webdataset", "names", made / "same" / name)
    assert tree(made / "same" / "one") == tree(made / "same" / "two")


def test_a_failure_leaves_the_earlier_export(made: Path, capfd):
    """Nothing of the new one is there, under any name."""
    splitter.export(made / "files", "names", made / "kept" / "export")
    before = tree(made / "kept")
    said = here(capfd, "export", made / "files", "--to=names", "--most=1", "-o", made / "kept" / "export")
    assert (said.code, said.err) == (2, "splitter: names: too many pieces; give a larger --most\n")
    assert tree(made / "kept") == before


def test_an_export_replaces_the_one_before_whole(made: Path):
    """Also after a kill: a folder that was not finished is written once more."""
    export = made / "twice"
    splitter.export(made / "files", "names", export, where="speaker == 'bob'")
    partial = made / "twice.partial"
    partial.mkdir()
    (partial / ".splitter-export").touch()
    (partial / "names_half.txt").write_text("half")
    splitter.export(made / "files", "names", export, where="speaker == 'ann'")
    assert sorted(os.listdir(export)) == [".splitter-export", "names_train.txt"]
    assert not [name for name in os.listdir(made) if name.startswith("twice.")]


def test_a_kill_before_the_first_file(made: Path):
    """The folder of the new export is there, and nothing is in it."""
    (made / "early.partial").mkdir()
    splitter.export(made / "files", "names", made / "early")
    assert [name for name in os.listdir(made) if name.startswith("early")] == ["early"]


def test_a_kill_while_an_earlier_export_is_removed(made: Path, monkeypatch):
    """Whatever is left of it, under whichever name, the next export removes the rest."""
    export = made / "removed"
    for to, options in (("huggingface", {}), ("names", {"most": 1})):
        splitter.export(made / "files", "huggingface", export)
        gone = []

        def killed(path: str, remove=os.unlink, gone=gone, **named) -> None:
            if gone:
                raise KeyboardInterrupt
            gone.append(remove(path, **named))

        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", killed)
            patch.setattr(os, "remove", killed)
            with pytest.raises(KeyboardInterrupt):
                splitter.export(made / "files", to, export, **options)
        splitter.export(made / "files", "huggingface", export)
        assert [name for name in os.listdir(made) if name.startswith("removed")] == ["removed"]


def test_an_export_on_nfs_is_replaced_again_and_again(made: Path, monkeypatch):
    """There, a file that is unlinked while it is open stays in its folder until it is closed."""

    def is_open(path: str, **named) -> bool:
        own = os.stat(path, follow_symlinks=False, **named)
        for number in os.listdir("/dev/fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(own, os.fstat(int(number))):
                    return True
        return False

    def unlinked(path, remove=os.unlink, dir_fd: int | None = None) -> None:
        if is_open(path, dir_fd=dir_fd):
            hidden = os.path.join(os.path.dirname(path), ".nfs0001")
            os.rename(path, hidden, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        else:
            remove(path, dir_fd=dir_fd)

    def removed(path, remove=os.rmdir, unlink=os.unlink, dir_fd: int | None = None) -> None:
        if dir_fd is None and os.path.exists(hidden := f"{path}/.nfs0001") and not is_open(hidden):
            unlink(hidden)
        remove(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", unlinked)
    monkeypatch.setattr(os, "rmdir", removed)
    for _ in range(3):
        splitter.export(made / "files", "huggingface", made / "nfs")
    assert [name for name in os.listdir(made) if name.startswith("nfs")] == ["nfs"]


@pytest.fixture
def modes_count(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the system answers to others than `root` is imitated; the names of files that are unlinked."""
    unlinked: list[str] = []

    def opened(path, flags: int, *more, of_system=os.open, **named) -> int:
        file = Path(path) if isinstance(path, str) else None
        if flags & os.O_RDWR and file and file.exists() and not file.stat().st_mode & 0o200:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return of_system(path, flags, *more, **named)

    def removing(name: str, of_system) -> None:
        def removed(path, dir_fd: int | None = None) -> None:
            if not os.stat(os.path.dirname(path) if dir_fd is None else dir_fd).st_mode & 0o200:
                raise PermissionError(errno.EACCES, "Permission denied", os.fspath(path))
            of_system(path, dir_fd=dir_fd)
            if name == "unlink":
                unlinked.append(os.path.basename(path))

        monkeypatch.setattr(os, name, removed)

    removing("unlink", os.unlink)
    removing("rmdir", os.rmdir)
    monkeypatch.setattr(os, "open", opened)
    return unlinked


def test_a_read_only_export_is_replaced_again_and_again(made: Path, modes_count: list[str]):
    """After `chmod -R a-w`; its marker goes last, as that of any other, in case of a kill."""
    export = made / "read only"
    for _ in range(3):
        splitter.export(made / "files", "huggingface", export)
        assert modes_count[-1:] in ([], [".splitter-export"])
        for path in (export / ".splitter-export", *export.rglob("*/"), export):
            path.chmod(path.stat().st_mode & 0o555)
    assert [name for name in os.listdir(made) if name.startswith("read only")] == ["read only"]


@pytest.mark.usefixtures("modes_count")
def test_an_export_of_another_user_is_left_alone(made: Path, monkeypatch):
    """One that is being written, on a share that forces the modes of files, and one that is finished."""
    partial = made / "of another.partial"
    partial.mkdir()
    (partial / "names.txt").write_text("half")
    marker = partial / ".splitter-export"
    with marker.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        marker.chmod(0o444)
        with pytest.raises(Refused, match=r"another\.partial: another export is writing there"):
            splitter.export(made / "files", "names", made / "of another")
    assert (partial / "names.txt").exists()
    marker.unlink()
    marker.write_text(json.dumps({"format": "names", "made": ["names.txt"], "below": {}}))
    marker.chmod(0o444)

    def refused(path: str, *_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", path)

    monkeypatch.setattr(os, "chmod", refused)
    with pytest.raises(Refused, match=r"partial: cannot be removed \(Operation not permitted: "):
        splitter.export(made / "files", "names", made / "of another")
    assert (partial / "names.txt").exists()


@pytest.mark.parametrize("ending", ["", ".replaced"])
def test_a_finished_export_of_another_user_is_refused_before_any_work(made: Path, monkeypatch, ending: str):
    """Where the new one goes, or put aside by an earlier export that could not remove it."""
    export = made / f"theirs {len(ending)}"
    name = f"{export.name}{ending}"
    splitter.export(made / "files", "names", made / name)
    before = tree(made / name)
    me, there = os.geteuid(), os.access
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    monkeypatch.setattr(os, "access", lambda path, mode: ".splitter-export" not in path and there(path, mode))
    monkeypatch.setattr(ExportTarget, "path", lambda *_: pytest.fail("the export has begun"))
    with pytest.raises(Refused, match=f"{name}: belongs to another user; remove it as its owner, or choose"):
        splitter.export(made / "files", "names", export)
    assert tree(made / name) == before
    assert not Path(f"{export}.partial").exists()


@pytest.mark.parametrize("ending", [".partial", ".replaced"])
def test_an_export_that_a_link_names_is_left_alone(made: Path, tmp_path: Path, monkeypatch, ending: str):
    """Where a new one is written, or the one before put aside: the link is refused, before any work."""
    splitter.export(made / "files", "huggingface", tmp_path / "big")
    before = tree(tmp_path / "big")
    link = tmp_path / f"mine{ending}"
    link.symlink_to("big")
    monkeypatch.setattr(ExportTarget, "path", lambda *_: pytest.fail("the export has begun"))
    with pytest.raises(Refused, match=rf"mine{ending}: is a link; remove it, or choose another .* with -o"):
        splitter.export(made / "files", "huggingface", tmp_path / "mine")
    assert tree(tmp_path / "big") == before
    assert link.is_symlink()


def test_what_no_export_made_is_left_alone(made: Path):
    """A folder with files of somebody else is not replaced, and neither is a file."""
    export = made / "mine"
    splitter.export(made / "files", "names", export)
    (export / "feats.scp").write_text("mine")
    with pytest.raises(Refused, match=r"holds files that no export wrote \(feats.scp\)"):
        splitter.export(made / "files", "names", export)
    assert (export / "feats.scp").read_text() == "mine"
    with pytest.raises(Refused, match="contains something that is not an export"):
        splitter.export(made / "files", "names", made / "in")
    with pytest.raises(Refused, match="is not a folder"):
        splitter.export(made / "files", "names", made / "list.csv")
    for folder in (made / "files" / "export", made, made / "files"):
        with pytest.raises(Refused, match="is in the output folder"):
            splitter.export(made / "files", "names", folder)


def test_files_added_to_a_folder_of_an_export_are_not_lost(made: Path):
    """Kaldi's scripts write `feats.scp` into each data folder."""
    export = made / "added"
    splitter.export(made / "files", "huggingface", export)
    splitter.export(made / "files", "huggingface", export)
    (added := export / "train" / "feats.scp").write_text("mine")
    with pytest.raises(Refused, match=r"whose files have changed since the export \(train\)"):
        splitter.export(made / "files", "huggingface", export)
    assert added.read_text() == "mine"
    added.unlink()
    splitter.export(made / "files", "huggingface", export)


def test_two_at_a_time_are_refused(made: Path):
    """The second does not take away what the first writes."""
    partial = made / "busy.partial"
    partial.mkdir()
    with open(partial / ".splitter-export", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(Refused, match="another export is writing there"):
            splitter.export(made / "files", "names", made / "busy")
    assert partial.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--to=nomes"], "--to 'nomes': is unknown; did you mean 'names'?"),
        (["--to=names", "--where=speaker == 'eve'"], "files: no output matches --where"),
        (["--to=names", "--text=speker"], "--text speker: the manifest has no such column; did you mean"),
        (
            ["--to=names", "-o", "s3://bucket/x"],
            "-o 's3://bucket/x': pass the path of a folder on this machine",
        ),
    ],
)
def test_refusals(made: Path, capfd, options: list[str], message: str):
    said = here(capfd, "export", made / "files", *options)
    assert (said.code, message in said.err) == (2, True), said.err
    assert not (made / "files-names").exists()


def test_a_mistake_of_a_format_is_not_taken_for_one_of_the_user(made: Path, monkeypatch):
    """Its own TypeError comes out with its traceback; that an option is unknown is refused."""

    def init(self, corpus, most=None):
        self.most = len(most)

    monkeypatch.setattr("outside_package.NamesExport.__init__", init)
    with pytest.raises(TypeError, match="has no len"):
        splitter.export(made / "files", "names")
    with pytest.raises(Refused, match="names: got an unexpected keyword argument 'least'"):
        splitter.export(made / "files", "names", least=1)


@pytest.mark.parametrize("to", EXPORTS.own)
def test_an_option_without_a_meaning_is_refused(made: Path, tmp_path: Path, to: str):
    """Each option of the command changes what a format writes, or is refused."""
    spoken = tmp_path / "spoken.csv"
    spoken.write_text("input,text,speaker,other,who,split\na.wav,one,ann,uno,eve,train\n")
    out = tmp_path / "pieces"
    dataset = Chunk(spoken, seconds=9, tail="keep")
    splitter.run(dataset, out, workers=0, quiet=True, root=made / "in", where="input == 'a.wav'")
    annotates = issubclass(EXPORTS.load(to, Export), AnnotationExport)
    for name, value in (("absolute", True), ("text", "other"), ("speaker", "who")):
        # a column of texts matters where texts are written
        content = {"content": "text" if name == "text" else "speaker"} if annotates else {}
        if (to, name) == ("ctm", "text"):
            # it has the times of words
            continue
        if name in EXPORTS.load(to, Export).unused:
            with pytest.raises(Refused, match=f"^--{name}: has no meaning for --to {to}; leave it out$"):
                splitter.export(out, to, tmp_path / "with", **content, **{name: value})
            continue
        splitter.export(out, to, tmp_path / "with", **content, **{name: value})
        splitter.export(out, to, tmp_path / "plain", **content)
        assert tree(tmp_path / "with") != tree(tmp_path / "plain"), name


def test_the_list_says_what_each_is_for(capfd):
    said = here(capfd, "export", "--list")
    assert said.code == 0
    assert "names: The names of the pieces, a line each." in said.out
    assert "--most INTEGER" in said.out


def test_outputs_at_a_url(made: Path):
    """The index has URLs, and shards are read from there; the default is a folder in the current one."""
    remote = fsspec.filesystem("memory")
    for sink in ("files", "parquet"):
        remote.put(f"{made / sink}/", f"/exported-{sink}/", recursive=True)
    found = everything_at("memory://exported-files", made)
    assert [path for _, path, *_ in found][-1] == "memory://exported-files/in/b c/é/000000_0.000s.wav"
    for (_, path, *_), (_, local, *_) in zip(
        everything_at("memory://exported-parquet", made), everything(made / "parquet"), strict=True
    ):
        assert (made / "far" / path).read_bytes() == (made / "all" / local).read_bytes()


def everything_at(url: str, made: Path) -> list[list[str]]:
    splitter.export(url, "names", made / "far")
    return [line for name in ("train", "test") for line in lines(made / "far", f"names_{name}.txt")]


class Spoken(ProcessorDataset):
    """What is spoken in each piece, as a model would say it."""

    def process(self, input_file: InputFile):
        return [], {"text": f"as of {input_file.input}"}


def test_pieces_that_a_second_stage_transcribed(made: Path):
    """A run of metadata only has no files: its inputs are the pieces, with what it says of them."""
    listed = Spoken(made / "files" / "manifest.csv")
    splitter.run(listed, made / "texts", workers=0, quiet=True, column="output")
    splitter.export(made / "texts", "names", made / "spoken")
    for name in ("names_train.txt", "names_test.txt"):
        for _, path, text, speaker in lines(made / "spoken", name):
            assert text.startswith("as of ")
            assert speaker in ("ann", "bob")
            assert soundfile.info(made / "spoken" / path).samplerate == RATE
    splitter.run(
        Spoken(str(made / "webdataset" / "shards" / "*.tar")), made / "texts of shards", workers=0, quiet=True
    )
    with pytest.raises(Refused, match="does not exist as a file"):
        splitter.export(made / "texts of shards", "names")


def test_a_text_of_the_whole_recording_is_named(tmp_path: Path):
    """It is that of no piece, and whoever trains with it would not see that."""
    listed = recordings(tmp_path)
    listed.write_text("input,text\nin/a.wav,all of it\n")
    splitter.run(Chunk(listed, seconds=1), tmp_path / "out", workers=0, quiet=True)
    note = splitter.export(tmp_path / "out", "names").note
    assert note.startswith("2 pieces with the same text as the piece before")


def test_a_manifest_that_leads_elsewhere_is_refused(made: Path, tmp_path: Path):
    """Whoever has edited it does not get other files of this machine into an export."""
    header, *rows = csv.reader((made / "files" / "manifest.csv").read_text().splitlines())
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "out").mkdir()
    for name in ("../secret", str(tmp_path / "secret")):
        rows[0][header.index("output")] = name
        with (tmp_path / "out" / "manifest.csv").open("w") as file:
            csv.writer(file).writerows([header, *rows])
        for linked in (False, True):
            with pytest.raises(Refused, match="leads out of the output folder"):
                splitter.export(tmp_path / "out", "names", linked=linked)


@pytest.mark.parametrize(("column", "value"), [("sample_rate", "0"), ("frames", "-5"), ("channels", "1e9")])
def test_a_manifest_with_impossible_numbers_is_refused(made: Path, tmp_path: Path, column: str, value: str):
    """In one line that names the piece, whatever the format."""
    header, *rows = csv.reader((made / "files" / "manifest.csv").read_text().splitlines())
    rows[1][header.index(column)] = value
    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / "manifest.csv").open("w") as file:
        csv.writer(file).writerows([header, *rows])
    for to in ("lhotse", "nemo", "kaldi"):
        with pytest.raises(
            Refused, match=f"in/a/000001_1.000s.wav: its {column} is '{value}', which is impossible"
        ):
            splitter.export(tmp_path / "out", to)


@pytest.mark.slow
@pytest.mark.parametrize("to", ["lhotse", "nemo"])
def test_memory_does_not_grow_with_the_pieces(made: Path, tmp_path: Path, to: str):
    """Ten times as many take no more."""
    header, row, *_ = (made / "files" / "manifest.csv").read_text().splitlines()
    folder, name = row.partition("/000000_")[0].rpartition(",")[2], "/000000_"
    peaks = []
    for count in (500, 5000):
        output = tmp_path / f"{count}"
        output.mkdir()
        rows = (row.replace(f"{folder}{name}", f"{folder}{number}/000000_") for number in range(count))
        (output / "manifest.csv").write_text("\n".join([header, *rows]))
        tracemalloc.start()
        splitter.export(output, to)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 2**20


def test_no_two_keys_are_the_same():
    """Whatever the names of the files are; and a plain name is its key."""
    names = ["a-b/0.wav", "a/b/0.wav", "a/b-0.wav", "a--b/0.wav", "a-/b/0.wav", "a/-b/0.wav", "a b/0.wav"]
    names += ["a_b/0.wav", "é/0.wav", "e\u0301/0.wav", "a/b--0.wav", "../a.wav", "/a/b/0.wav"]
    keys = {key_of(name) for name in names}
    assert len(keys) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+", key) for key in keys)
    assert key_of("a-b/000001_1.5s.wav") == "a-b--000001_1.5s"


def test_lines_are_sorted_by_their_bytes(tmp_path: Path, monkeypatch):
    """As `LC_ALL=C sort` does it, with more lines than are in memory at a time."""
    monkeypatch.setattr("splitter.exports.sorting.MOST_IN_MEMORY", 3)
    given = [f"{word}\n" for word in ("b", "a", "Z", "é", "a b", "a-b", "a", "aa", "Ö", "0")]
    file = SortedFile(str(tmp_path / "sorted"))
    for line in given:
        file.write(line)
    file.close()
    assert (tmp_path / "sorted").read_bytes() == b"".join(sorted(line.encode() for line in given))
