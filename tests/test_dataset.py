"""The class that users write, used as a dataset: one input at a time, by a DataLoader, in a pickle."""

import os
import pickle
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from doors import WORDS, here, read_table, tree, write_files, write_list
from torch.utils.data import DataLoader

from splitter import InputList, OutputFile, ProcessorDataset, Skip, read_manifest
from splitter.errors import BadResult, Refused, RunStopped, UnreadableInput
from splitter.recipes.words import Words


class Logged(ProcessorDataset):
    """Notes on disk which process sets itself up, and which processes what."""

    def __init__(self, inputs, log: str = ""):
        super().__init__(inputs)
        self.log = Path(log)
        self.model = None

    def note(self, what: str) -> None:
        with (self.log / what).open("a") as file:
            file.write(f"{os.getpid()}\n")

    def setup(self) -> None:
        self.model = "loaded"
        self.note("setup")

    def process(self, input_file):
        assert self.model == "loaded"
        self.note("process")
        return [], {"device": self.device}

    def noted(self, what: str) -> list[int]:
        path = self.log / what
        return list(map(int, path.read_text().split())) if path.exists() else []


class Scratchy(ProcessorDataset):
    """Works with a file in scratch, as tools do that must write."""

    def process(self, input_file):
        copy = input_file.scratch / "a copy"
        copy.write_bytes(input_file.read_bytes())
        return [OutputFile("copy", copy), OutputFile("original", input_file.path)], {
            "scratch": str(input_file.scratch)
        }


class Slotted(Words):
    """Keeps an attribute outside of `__dict__`."""

    __slots__ = ("ending",)

    def __init__(self, inputs, ending: str = ".txt"):
        super().__init__(inputs)
        self.ending = ending


class OnlyTogether(ProcessorDataset):
    """Has no `process` of its own."""

    def process_batch(self, input_files):
        return [([], {"length": len(one.read_text())}) for one in input_files]


@pytest.fixture
def dataset(words) -> Words:
    return Words(InputList(words, root="inputs"), num_chars=3, overlap=2)


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    """The system's temporary folder, empty and for this test only."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


# -- one input at a time -----------------------------------------------------------------------------------


def test_an_item_is_what_process_gave(dataset):
    """`dataset[i]` is the tuple of output files and the metadata, counted from either end."""
    outputs, metadata = dataset[1]
    assert [output.content for output in outputs] == ["sca", "cal", "ale", "lea", "eab", "abl", "ble"]
    assert outputs[0] == OutputFile("0.txt", "sca", {"part": "sca"})
    assert metadata == {"word": "scaleable"}
    assert dataset[-3] == dataset[1]


def test_it_has_as_many_items_as_inputs(dataset):
    """It has a length, and ends where it says."""
    assert len(dataset) == 4
    assert [metadata["word"] for _, metadata in dataset] == list(WORDS.values())
    for index in (4, -5):
        with pytest.raises(IndexError, match=f"input {index} of 4"):
            dataset[index]


def test_trying_an_input_writes_nothing(dataset, words, temporary, monkeypatch, tmp_path):
    """Neither beside the list, nor in the working directory, nor in the temporary folder."""
    monkeypatch.chdir(tmp_path)
    before = tree(tmp_path)
    dataset[0]
    assert tree(tmp_path) == before
    assert list(temporary.iterdir()) == []


def test_metadata_is_read_after_the_last_output(words):
    """A generator may fill it in."""

    class Counting(ProcessorDataset):
        def process(self, input_file):
            metadata = {}

            def outputs():
                for number, letter in enumerate(input_file.read_text()):
                    metadata["letters"] = number + 1
                    yield OutputFile(str(number), letter)

            return outputs(), metadata

    assert Counting([words.parent / "inputs/a.txt"])[0][1] == {"letters": 6}


def test_what_lies_in_scratch_comes_as_bytes(words, temporary):
    """Scratch is gone when the item is there, so a file in it has become its content."""
    outputs, metadata = Scratchy([words.parent / "inputs/a.txt"])[0]
    assert outputs == (OutputFile("copy", b"simple"), OutputFile("original", words.parent / "inputs/a.txt"))
    assert list(temporary.iterdir()) == []
    assert not os.path.exists(metadata["scratch"])


def test_an_item_raises_the_users_own_error(words):
    """What process raises comes through as it is: an error, a Skip, a generator's error."""

    class Bad(ProcessorDataset):
        def process(self, input_file):
            match input_file.read_text():
                case "simple":
                    raise LookupError("no such word")
                case "scaleable":
                    raise Skip("dull")
                case "pytorch":
                    return "garbage"
            return (1 / 0 for _ in "x"), {}

    dataset = Bad(InputList(words, root="inputs"))
    errors = (LookupError, "no such word"), (Skip, "dull"), (ZeroDivisionError, "division")
    for index, (error, message) in enumerate(errors):
        with pytest.raises(error, match=message):
            dataset[index]
    with pytest.raises(BadResult, match="returned str 'garbage'"):
        dataset[3]


def test_an_item_that_is_not_there(words):
    """A missing input file is named."""
    with pytest.raises(UnreadableInput, match=r"gone\.txt"):
        Words([words.parent / "gone.txt"])[0]


def test_a_class_without_process():
    """The message says which method to write."""

    class Empty(ProcessorDataset):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty has no method process\(self, input_file\)"):
        Empty([__file__])[0]


def test_a_list_that_cannot_be_read(folder):
    """It is refused when the dataset is first used, with the same words as in a run."""
    with pytest.raises(Refused, match="cannot be read"):
        len(Words(folder / "none.csv"))


# -- classes that are not as they should be ----------------------------------------------------------------


class WithoutSuper(ProcessorDataset):
    """Keeps the inputs to itself."""

    def __init__(self, inputs, set_inputs: bool = False):
        if set_inputs:
            self.inputs = inputs

    def process(self, input_file):
        return [], {}


@pytest.mark.parametrize("set_inputs", [False, True])
def test_a_class_that_does_not_pass_its_inputs_on(words, tmp_path, set_inputs):
    """A run, `len` and an item say in one line what is missing."""
    dataset = WithoutSuper(words, set_inputs)
    for use in (lambda: dataset.run(tmp_path / "out"), lambda: len(dataset), lambda: dataset[0]):
        with pytest.raises(
            Refused, match=r"^WithoutSuper: its __init__ must call super\(\).__init__\(inputs\)"
        ):
            use()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"metadata_types": ["part"]}, "metadata_types is ['part']; expected a dict"),
        ({"metadata_types": None}, "metadata_types is None; expected a dict"),
        (
            {"metadata_types": {"part": "str"}},
            "metadata_types['part'] is 'str'; expected str, int, float or bool",
        ),
        ({"metadata_types": {7: str}}, "metadata_types has the key 7"),
        ({"version": {}}, "version is {}; expected a number or text"),
        ({"group_rows": "no"}, "group_rows is 'no'; expected True or False"),
    ],
    ids=str,
)
def test_an_attribute_of_the_wrong_kind(words, tmp_path, attributes, message):
    """It is refused by name, before any work."""
    recipe = type("Odd", (Words,), attributes)
    with pytest.raises(Refused) as caught:
        recipe(InputList(words, root="inputs")).run(tmp_path / "out")
    assert str(caught.value).startswith(f"Odd: {message}")
    assert not (tmp_path / "out").exists()


# -- columns that a recipe needs ---------------------------------------------------------------------------


class Needs(Words):
    """Needs a column."""

    def check_columns(self, columns):
        if columns != ("input", "who"):
            raise ValueError(f"needs the columns input and who, not\n{columns}")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_recipe_says_which_columns_it_needs(words, tmp_path, capfd, workers):
    """A list without them is refused in one line before any work; they have the names that they are given."""
    with pytest.raises(Refused, match=r"^Needs: needs the columns input and who"):
        Needs(InputList(words, root="inputs"))[0]
    write_list(words, [["input", "name"], ["a.txt", "x"]])
    options = [
        "--root",
        "inputs",
        "--recipe",
        f"{__file__}:Needs",
        "-o",
        tmp_path / "out",
        "--workers",
        workers,
    ]
    said = here(capfd, "run", words, *map(str, options))
    assert (said.code, len(said.lines)) == (2, 1)
    assert "Needs: needs the columns input and who, not ('input', 'name')" in said.err
    assert not (tmp_path / "out").exists()
    assert here(capfd, "run", words, *map(str, options), "--rename", "name=who").code == 0


class Advises(Words):
    """Says what it sees of the first inputs."""

    def advise_before_work(self, input_files):
        names = [one.input for one in input_files]
        if "c.txt" in names:
            raise KeyError("c.txt")
        return f"{len(names)} of them" if names[0] == "a.txt" else ""


def test_a_recipe_may_advise_before_work(tmp_path, capfd):
    """With a note about the first twenty inputs, or none; one that cannot is refused in one line."""
    for names, code, note in (
        (["a.txt", *(f"b{number}.txt" for number in range(30))], 1, "note: 20 of them\n"),
        (["b.txt"], 1, ""),
        (["c.txt"], 2, "splitter: Advises: advise_before_work raised KeyError: 'c.txt'\n"),
    ):
        dataset = write_list(tmp_path / "l.csv", [["input"], *([name] for name in names)])
        options = ["--recipe", f"{__file__}:Advises", "-o", tmp_path / f"out{code}", "--workers", "0"]
        ran = here(capfd, "run", dataset, *options, "--fresh")
        assert ran.code == code, ran.err
        assert ran.err.startswith(note)
        assert (" of them" in ran.err) == note.startswith("note:")


# -- by a DataLoader ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_a_dataloader_by_hand(dataset, batch_size, workers):
    """`collate_fn` leaves samples as they are: no tuples of strings, no tensors made of ints."""
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=workers, collate_fn=dataset.collate_fn)
    batches = list(loader)
    assert [len(batch) for batch in batches] == {1: [1, 1, 1, 1], 2: [2, 2], 3: [3, 1]}[batch_size]
    assert [sample for batch in batches for sample in batch] == [dataset[index] for index in range(4)]
    assert all(type(batch) is list for batch in batches)


@pytest.mark.slow
def test_a_dataloader_in_spawned_workers(dataset):
    """Everything a fresh process needs can be pickled, `collate_fn` too."""
    loader = DataLoader(
        dataset, batch_size=4, num_workers=1, collate_fn=dataset.collate_fn, multiprocessing_context="spawn"
    )
    assert list(loader) == [[dataset[index] for index in range(4)]]


@pytest.mark.parametrize("opened", [False, True])
def test_pickling(dataset, opened):
    """A dataset survives a pickle, before and after its list was read, and keeps its parameters."""
    if opened:
        dataset[0]
    copy = pickle.loads(pickle.dumps(dataset))  # noqa: S301
    assert len(copy) == 4
    assert copy[2] == dataset[2]
    assert copy.parameters == dataset.parameters == {"num_chars": 3, "overlap": 2}


def test_pickling_keeps_slots(words):
    """Attributes of `__slots__` come along, and those that were never set stay unset."""
    slotted = Slotted(InputList(words, root="inputs"), ending=".part")
    copy = pickle.loads(pickle.dumps(slotted))  # noqa: S301
    assert (copy.ending, copy[0]) == (".part", slotted[0])
    del slotted.ending
    assert not hasattr(pickle.loads(pickle.dumps(slotted)), "ending")  # noqa: S301


def test_an_item_of_a_recipe_with_process_batch_only(words):
    """One input is a batch of one."""
    assert OnlyTogether(InputList(words, root="inputs"))[0] == ((), {"length": 6})


def test_pickling_keeps_the_run(dataset, tmp_path):
    """A copy is the same recipe with the same parameters: there is nothing to do again."""
    dataset.run(tmp_path / "out", workers=0, quiet=True)
    copy = pickle.loads(pickle.dumps(dataset))  # noqa: S301
    assert copy.run(tmp_path / "out", workers=0, quiet=True).summary.work.inputs == 0


# -- setup and device --------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_setup_is_called_once_in_each_worker(words, tmp_path, workers):
    """Before its first input; not at all in the driver, unless that is the worker."""
    dataset = Logged(InputList(words, root="inputs"), str(tmp_path))
    manifest = dataset.run(tmp_path / "out", workers=workers, batch_size=1, quiet=True)
    assert manifest.failed.empty
    setup, process = dataset.noted("setup"), dataset.noted("process")
    assert len(process) == 4
    assert len(set(setup)) == len(setup) <= max(1, workers)
    assert set(process) <= set(setup)
    assert (os.getpid() in setup) == (workers == 0)
    assert (dataset.model == "loaded") == (workers == 0)


def test_setup_is_called_once_for_many_items(words, tmp_path):
    """`dataset[i]` sets up once, and what it set up does not count for workers."""
    dataset = Logged(InputList(words, root="inputs"), str(tmp_path))
    assert [metadata for _, metadata in dataset] == [{"device": "cpu"}] * 4
    assert dataset.noted("setup") == [os.getpid()]
    dataset.run(tmp_path / "out", workers=1, quiet=True)
    assert len(dataset.noted("setup")) == 2


@pytest.mark.parametrize("workers", [0, 1])
def test_a_setup_that_fails_stops_the_run(words, tmp_path, workers):
    """One line with its error, no failed inputs, and the next run does everything."""

    class Broken(Logged):
        def setup(self) -> None:
            raise OSError("no model")

    inputs = InputList(words, root="inputs")
    with pytest.raises(RunStopped, match=r"Broken: setup\(\) raised OSError: no model"):
        Broken(inputs, str(tmp_path)).run(tmp_path / "out", workers=workers, quiet=True)
    assert len(read_manifest(tmp_path / "out")) == len(read_manifest(tmp_path / "out").failed) == 0
    assert len(Logged(inputs, str(tmp_path)).run(tmp_path / "out", workers=workers, quiet=True)) == 4


def test_the_device_of_a_run(words, tmp_path):
    """`self.device` is what --device says, in every process."""
    dataset = Logged(InputList(words, root="inputs"), str(tmp_path))
    auto = "cuda" if torch.cuda.is_available() else "cpu"
    for number, (given, expected) in enumerate((("cpu", "cpu"), ("auto", auto))):
        manifest = dataset.run(tmp_path / f"out{number}", workers=number, device=given, quiet=True)
        assert set(manifest["device"]) == {expected}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there(dataset, tmp_path):
    """--device cuda without one is refused."""
    with pytest.raises(Refused, match="--device cuda"):
        dataset.run(tmp_path / "out", device="cuda")


# -- files in and out --------------------------------------------------------------------------------------


def test_what_an_input_file_gives(folder, tmp_path):
    """Path, row, content: as text with its line ends, as bytes, as an open file."""
    seen = {}

    class Look(ProcessorDataset):
        def process(self, input_file):
            with input_file.open() as file:
                seen["open"] = file.read(3)
            seen.update(
                input=input_file.input,
                path=input_file.path,
                columns=input_file.columns,
                text=input_file.read_text(),
                latin=input_file.read_text("latin-1"),
                bytes=input_file.read_bytes(),
                scratch=input_file.scratch,
                empty=list(input_file.scratch.iterdir()),
            )
            (input_file.scratch / "left over").mkdir()
            return [], {}

    write_files(folder, {"in/ü.txt": "ä\r\nb\r"})
    write_list(folder / "l.csv", [["n", "input"], ["007", "./ü.txt"]])
    Look(folder / "l.csv").run(tmp_path / "out", workers=0, root="in", quiet=True)
    assert seen["input"] == "./ü.txt"
    assert seen["path"].samefile(folder / "in/ü.txt")
    assert seen["columns"] == {"n": "007", "input": "./ü.txt"}
    assert seen["text"] == "ä\r\nb\r"
    assert seen["bytes"] == "ä\r\nb\r".encode()
    assert seen["latin"] == "ä\r\nb\r".encode().decode("latin-1")
    assert seen["open"] == seen["bytes"][:3]
    assert seen["empty"] == []
    assert not seen["scratch"].exists()
    with pytest.raises(AttributeError):
        OutputFile("x").name = "y"


def test_every_kind_of_content_is_stored_as_it_is(folder, tmp_path):
    """Bytes, text, a path, a path in scratch, a callable, one that goes back; size and checksum too."""

    def seeking(file):
        file.write(b"??34")
        file.seek(0)
        file.write(b"12")

    class Kinds(ProcessorDataset):
        def process(self, input_file):
            made = input_file.scratch / "made"
            made.write_bytes(b"1234")
            contents = {
                "bytes": b"1234",
                "bytearray": bytearray(b"1234"),
                "text": "1234",
                "path": input_file.path,
                "scratch": made,
                "callable": lambda file: file.write(b"1234"),
                "seeking": seeking,
                "empty": "",
                "nothing": lambda file: None,
                "line ends": "\r\n\r",
            }
            return [OutputFile(name, content) for name, content in contents.items()], {}

    write_files(folder, {"a": "1234"})
    Kinds([folder / "a"]).run(tmp_path / "out", workers=1, quiet=True)
    rows = {os.path.basename(row["output"]): row for row in read_table(tmp_path / "out/manifest.csv")}
    stored = {os.path.basename(name): text for name, text in tree(tmp_path / "out").items()}
    del stored["manifest.csv"]
    same = ["bytes", "bytearray", "text", "path", "scratch", "callable", "seeking"]
    assert stored == {**dict.fromkeys(same, b"1234"), "empty": b"", "nothing": b"", "line ends": b"\r\n\r"}
    assert {name: int(row["size"]) for name, row in rows.items()} == {
        name: len(text) for name, text in stored.items()
    }
    assert len({rows[name]["checksum"] for name in same}) == 1
    assert len({row["checksum"] for row in rows.values()}) == 3
    assert (folder / "a").read_bytes() == b"1234"


@pytest.mark.parametrize("content", [7, ["x"], Path("/nowhere/x"), Path("/"), "\ud800"], ids=repr)
def test_a_content_that_is_none(folder, tmp_path, content):
    """What cannot be stored is its input's error."""

    class Bad(ProcessorDataset):
        def process(self, input_file):
            return [OutputFile("good", "x"), OutputFile("bad", content)], {}

    write_files(folder, {"a": ""})
    result = Bad([folder / "a"]).run(tmp_path / "out", workers=0, quiet=True)
    assert list(result.failed["input"]) == [str(folder / "a")]
    assert set(tree(tmp_path / "out")) == {"manifest.csv", "errors.csv"}


@pytest.mark.parametrize(
    "result",
    [None, 7, "text", [], ([],), ([], {}, {}), ({}, {}), ("text", {}), ([], []), (None, {}), OutputFile("x")],
)
def test_a_result_that_is_none(folder, tmp_path, result):
    """What is not (output files, metadata) is its input's error, and the message shows it."""

    class Bad(ProcessorDataset):
        def process(self, input_file):
            return result

    write_files(folder, {"a": ""})
    failed = Bad([folder / "a"]).run(tmp_path / "out", workers=0, quiet=True).failed
    assert list(failed["error"]) == ["BadResult"]
    assert "expected (output files, metadata)" in failed["message"][0]


def test_run_is_the_same_as_the_method(words, tmp_path):
    """`splitter.run(dataset, output)` and `dataset.run(output)` are one call."""
    import splitter

    dataset = Words(InputList(words, root="inputs"))
    one = dataset.run(tmp_path / "one", workers=0, quiet=True)
    other = splitter.run(dataset, tmp_path / "other", workers=0, quiet=True)
    assert one.equals(other)
    assert tree(tmp_path / "one") == tree(tmp_path / "other")


def test_the_result_is_a_dataframe_with_what_failed(words, tmp_path):
    """The manifest is a DataFrame; `failed` holds the rows of errors.csv, `summary` the numbers."""
    write_files(words.parent, {"inputs/b.txt": b"\xff"})
    manifest = Words(words).run(tmp_path / "out", workers=0, root="inputs", quiet=True)
    assert list(manifest["input"].unique()) == ["a.txt", "c.txt", "d.txt"]
    assert manifest["size"].sum() == 2 * len(manifest)
    (failed,) = manifest.failed.to_dict("records")
    assert (failed["input"], failed["error"], failed["attempts"]) == ("b.txt", "UnicodeDecodeError", 1)
    assert "process" in failed["traceback"]
    assert (manifest.summary.done, manifest.summary.failed) == (3, 1)
    # what is chosen from it is an ordinary DataFrame
    assert len(manifest[manifest["input"] == "a.txt"]) == 5


def test_a_run_that_was_stopped_raises(words, tmp_path):
    """What is finished then stands in the manifest all the same."""
    write_files(words.parent, {"inputs/b.txt": b"\xff", "inputs/c.txt": b"\xff"})
    options = {"workers": 0, "batch_size": 1, "root": "inputs", "max_failures": 1, "quiet": True}
    with pytest.raises(RunStopped, match="2 inputs failed, more than --max-failures 1"):
        Words(words).run(tmp_path / "out", **options)
    manifest = read_manifest(tmp_path / "out")
    assert set(manifest["input"]) == {"a.txt"}
    assert list(manifest.failed["input"]) == ["b.txt", "c.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("together", [False, True])
def test_a_copy_of_the_worker_that_user_code_lets_go(words, tmp_path, together):
    """A fork that returns, leaves with sys.exit, or raises ends; the parent's results stand."""

    class Forks(ProcessorDataset):
        def process(self, input_file):
            child = not os.fork()
            if child and input_file.input == "b.txt":
                sys.exit(0)
            if child and input_file.input == "c.txt":
                raise Skip("from the copy")
            return (OutputFile(f"{at}.txt", str(at)) for at in range(3)), {}

    class Together(Forks):
        def process_batch(self, input_files):
            return [self.process(one) for one in input_files]

    recipe = Together if together else Forks
    manifest = recipe(InputList(words, root="inputs")).run(
        tmp_path / "out", workers=2, quiet=True, batch_size=2
    )
    assert len(manifest.failed) == 0
    assert list(manifest["output"]) == [f"{name}/{at}.txt" for name in "abcd" for at in range(3)]
    assert all((tmp_path / "out" / name).read_text() == name[2] for name in manifest["output"])


def test_sys_exit_before_the_work(words, tmp_path, capfd):
    """A recipe that exits when it is made, or when it looks at the columns, is refused with its name."""
    (tmp_path / "leaves.py").write_text(
        "import sys\nfrom splitter import ProcessorDataset\n"
        "class Made(ProcessorDataset):\n"
        "    def __init__(self, inputs):\n        super().__init__(inputs)\n        sys.exit(0)\n"
        "class Looks(ProcessorDataset):\n"
        "    def check_columns(self, columns):\n        sys.exit('no column speaker')\n"
        "    def process(self, input_file):\n        return [], {}\n"
    )
    for name, message in (("Made", "Made: SystemExit: 0"), ("Looks", "Looks: no column speaker")):
        how = [
            "--root",
            "inputs",
            "--recipe",
            f"{tmp_path / 'leaves.py'}:{name}",
            "--output",
            tmp_path / "out",
        ]
        said = here(capfd, "run", words, *how)
        assert (said.code, said.err) == (2, f"splitter: {message}\n")
        assert not (tmp_path / "out").exists()


def test_an_output_shows_itself_without_its_content():
    """Whoever looks at what one input gives does not want megabytes on the screen."""
    assert repr(OutputFile("a.npy", bytes(34_816), {"bands": 40})) == (
        "OutputFile('a.npy', <34,816 bytes>, {'bands': 40})"
    )
    assert repr(OutputFile("0.txt", "word", row=2)) == "OutputFile('0.txt', 'word', {}, row=2)"
    assert len(repr(OutputFile("0.txt", "word" * 1000))) < 100


def test_a_dataset_shows_what_it_was_made_with():
    """The recipe, its inputs in short, and the parameters that are not as usual; no list is read."""
    paths = [f"{number}.txt" for number in range(1000)]
    assert repr(Words("nowhere.csv")) == "Words('nowhere.csv')"
    assert repr(Words(paths, 3)) == "Words(<list of 1,000>, num_chars=3)"
    two = InputList("one.csv") + InputList("s3://bucket/two/")
    assert repr(Words(two, num_chars=2, overlap=0)) == "Words('one.csv' + 's3://bucket/two/', overlap=0)"
