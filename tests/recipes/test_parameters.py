"""A recipe's options: read from its signature and docstring, given on the command line or in a job file."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import soundfile
from doors import here, read_table, write_files, write_list

RECIPES = '''\
from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import Any, Literal, Optional, Sequence, Union

from splitter import ProcessorDataset


class Codec(enum.Enum):
    WAV = "wav"
    MP3 = "mp3"


class All(ProcessorDataset):
    """Take a parameter of every kind.

    It has a docstring of more than one line.

    Args:
        flag: Whether the flag
            is up.
        number (int): How many.
        codec: Which: a colon, and more.
    """

    def __init__(self, inputs, flag: bool = False, lit: bool = True, number: int = 3, factor: float = 10,
                 text: str = "a", path: Path = Path("x"), mode: Literal["fast", "slow"] = "fast",
                 level: Literal[1, 2] = 1, codec: Codec = Codec.WAV, maybe: Optional[int] = None,
                 other: float | None = None, union: Union[str, None] = None, names: list[str] = (),
                 numbers: Sequence[int] = (1, 2), pair: tuple[float, ...] = (),
                 modes: list[Literal["x", "y"]] = (), command: str | list[str] = "", guessed=5,
                 guessed_text=None, anything: Any = 0.5, hidden: object = None, *, keyword_only: int = 0):
        super().__init__(inputs)
        self.given = {name: repr(value) for name, value in locals().items() if name[0] != "_"}
        del self.given["self"], self.given["inputs"]

    def process(self, input_file):
        return [], {"given": json.dumps(self.given)}


class Required(ProcessorDataset):
    def __init__(self, inputs, count: int, who: str = "me"):
        super().__init__(inputs)

    def process(self, input_file):
        return [], {}


class Inherits(Required):
    """Has the parameters of its parent."""


class Plain(ProcessorDataset):
    """Has no parameters."""

    def process(self, input_file):
        return [], {}


class Open(ProcessorDataset):
    def __init__(self, inputs, *args, **kwargs):
        super().__init__(inputs)


class TakesAFunction(ProcessorDataset):
    def __init__(self, inputs, function: type):
        super().__init__(inputs)


class Unknown(ProcessorDataset):
    def __init__(self, inputs, thing: Nowhere = None):
        super().__init__(inputs)


class Particular(ProcessorDataset):
    def __init__(self, inputs, even: int = 0):
        super().__init__(inputs)
        if even % 2:
            raise ValueError(f"{even} is odd")

    def process(self, input_file):
        return [], {}
'''

DEFAULTS = {
    "flag": "False",
    "lit": "True",
    "number": "3",
    "factor": "10",
    "text": "'a'",
    "path": "PosixPath('x')",
    "mode": "'fast'",
    "level": "1",
    "codec": "<Codec.WAV: 'wav'>",
    "maybe": "None",
    "other": "None",
    "union": "None",
    "names": "()",
    "numbers": "(1, 2)",
    "pair": "()",
    "modes": "()",
    "command": "''",
    "guessed": "5",
    "guessed_text": "None",
    "anything": "0.5",
    "hidden": "None",
    "keyword_only": "0",
}


@pytest.fixture
def listing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of one input, beside a file with recipes."""
    write_files(folder, {"recipes of mine.py": RECIPES, "a.txt": ""})
    monkeypatch.chdir(folder)
    return write_list(folder / "dataset.csv", [["input"], ["a.txt"]])


def run(capfd, listing, *arguments: str, recipe: str = "All"):
    return here(
        capfd, "run", listing, "--recipe", f"recipes of mine.py:{recipe}", "--workers", "0", *arguments
    )


def given(listing: Path) -> dict[str, str]:
    """The parameters that process saw, each as its repr."""
    (row,) = read_table(listing.parent / "outputs/manifest.csv")
    values: dict[str, str] = json.loads(row["given"])
    return values


@pytest.mark.parametrize(
    ("arguments", "name", "expected"),
    [
        (["--flag"], "flag", "True"),
        (["--no-flag"], "flag", "False"),
        (["--no-lit"], "lit", "False"),
        (["--number", "-7"], "number", "-7"),
        (["--factor", "2"], "factor", "2.0"),
        (["--factor=1e-3"], "factor", "0.001"),
        (["--text", "ü 1; $(x)"], "text", "'ü 1; $(x)'"),
        (["--text", ""], "text", "''"),
        (["--text", "-x"], "text", "'-x'"),
        (["--path", "not there/b"], "path", "PosixPath('not there/b')"),
        (["--mode", "slow"], "mode", "'slow'"),
        (["--level", "2"], "level", "2"),
        (["--codec", "MP3"], "codec", "<Codec.MP3: 'mp3'>"),
        (["--maybe", "7"], "maybe", "7"),
        (["--other", "1.5"], "other", "1.5"),
        (["--union", "x"], "union", "'x'"),
        (["--names", "a", "--names", "b c"], "names", "['a', 'b c']"),
        (["--numbers", "3"], "numbers", "[3]"),
        (["--pair", "1", "--pair", "2.5"], "pair", "[1.0, 2.5]"),
        (["--modes", "y", "--modes", "x"], "modes", "['y', 'x']"),
        (["--command", "sox {input}"], "command", "'sox {input}'"),
        (["--guessed", "6"], "guessed", "6"),
        (["--guessed-text", "x"], "guessed_text", "'x'"),
        (["--anything", "2"], "anything", "2.0"),
        (["--keyword-only", "1"], "keyword_only", "1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_value_on_the_command_line(capfd, listing, arguments, name, expected):
    """It arrives with its type; all others are what the class says."""
    assert run(capfd, listing, *arguments).code == 0
    assert given(listing) == {**DEFAULTS, name: expected}


@pytest.mark.parametrize(
    ("line", "name", "expected"),
    [
        ("flag = true", "flag", "True"),
        ("lit = false", "lit", "False"),
        ("number = -7", "number", "-7"),
        ("factor = 2", "factor", "2.0"),
        ("factor = 1e-3", "factor", "0.001"),
        ('text = "ü 1"', "text", "'ü 1'"),
        ("text = 5", "text", "'5'"),
        ('path = "b"', "path", "PosixPath('b')"),
        ('mode = "slow"', "mode", "'slow'"),
        ("level = 2", "level", "2"),
        ('codec = "MP3"', "codec", "<Codec.MP3: 'mp3'>"),
        ("maybe = 7", "maybe", "7"),
        ('names = ["a", "b c"]', "names", "['a', 'b c']"),
        ('names = "a"', "names", "['a']"),
        ("numbers = [3, 4]", "numbers", "[3, 4]"),
        ("pair = [1, 2.5]", "pair", "[1.0, 2.5]"),
        ('command = ["sox", "{input}"]', "command", "['sox', '{input}']"),
        ('command = "sox {input}"', "command", "'sox {input}'"),
        ("guessed-text = 'x'", "guessed_text", "'x'"),
        ("keyword_only = 1", "keyword_only", "1"),
    ],
)
def test_a_value_in_a_job_file(capfd, listing, line, name, expected):
    """It arrives with its type, whether its name has dashes or underscores."""
    (listing.parent / "job.toml").write_text(line)
    assert run(capfd, listing, "--config", "job.toml").code == 0
    assert given(listing) == {**DEFAULTS, name: expected}


REFUSED = [
    (["--number", "2.5"], "'--number': '2.5' is not a valid integer"),
    (["--number", "x"], "'--number': 'x' is not a valid integer"),
    (["--number"], "'--number' requires an argument"),
    (["--factor", "x"], "'--factor': 'x' is not a valid float"),
    (["--mode", "slo"], "'--mode': 'slo' is not one of 'fast', 'slow'"),
    (["--level", "3"], "'--level': '3' is not one of '1', '2'"),
    (["--codec", "mp3"], "'--codec': 'mp3' is not one of 'WAV', 'MP3'"),
    (["--numbers", "1", "--numbers", "x"], "'--numbers': 'x' is not a valid integer"),
    (["--modes", "z"], "'--modes': 'z' is not one of 'x', 'y'"),
    (["--numbr", "1"], "No such option '--numbr'; did you mean '--number'?"),
    (["--flagg"], "No such option '--flagg'; did you mean '--flag'?"),
    (["--hidden", "x"], "No such option '--hidden'"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=str)
def test_a_value_that_is_refused(capfd, listing, arguments, message):
    """In one line, with exit code 2, and nothing is made."""
    said = run(capfd, listing, *arguments)
    assert said.code == 2
    (line,) = said.lines
    assert line.startswith("splitter: ")
    assert message in line
    assert not (listing.parent / "outputs").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("number = 2.5", "'--number': '2.5' is not a valid integer"),
        ("number = true", "'--number': 'true' is not a valid integer"),
        ("retries = true", "'--retries': 'true' is not a valid integer"),
        ("flag = 5", "'--flag': '5' is not a valid boolean"),
        ("level = 3", "'--level': '3' is not one of '1', '2'"),
        ('text = ["a"]', "'text' takes one value, not a list"),
        ("numbers = [1, [2]]", "'numbers' cannot be [1, [2]]"),
        ("[number]\nx = 1", "'number' cannot be {'x': 1}"),
        ("numbr = 1", "'numbr' is not an option; did you mean 'number'?"),
        ("worker = 1", "'worker' is not an option; did you mean 'workers'?"),
        ("config = 'x'", "'config' is not an option"),
        ("help = true", "'help' is not an option"),
        ("hidden = 1", "'hidden' is not an option"),
        ("number = ", "job.toml: is not TOML: Invalid value (at"),
        ("limit = 0", "--limit 0: must be at least 1"),
    ],
)
def test_a_job_file_that_is_refused(capfd, listing, text, message):
    """In one line as well; nothing is ignored or cut to fit."""
    (listing.parent / "job.toml").write_text(text)
    said = run(capfd, listing, "--config", "job.toml")
    assert said.code == 2
    (line,) = said.lines
    assert message in line
    assert not (listing.parent / "outputs").exists()


def test_the_command_line_wins_over_the_job_file(capfd, listing):
    """Value by value; the job file may name everything, the recipe, the list and the output too."""
    (listing.parent / "job.toml").write_text(
        'dataset = "dataset.csv"\nrecipe = "recipes of mine.py:All"\noutput = "there"\nworkers = 0\n'
        'quiet = true\nnumber = 4\nflag = true\nnames = ["a"]\ntext = "kept"\n'
    )
    said = here(
        capfd, "run", "--config=job.toml", "--number", "9", "--no-flag", "--names", "z", "-o", "outputs"
    )
    assert (said.code, said.err) == (0, "")
    assert not (listing.parent / "there").exists()
    changed = {"number": "9", "flag": "False", "names": "['z']", "text": "'kept'"}
    assert given(listing) == {**DEFAULTS, **changed}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"text = '\xe9'", "job.toml: is not UTF-8 at byte 8; save it as UTF-8"),
        ("text = 'x'".encode("utf-16"), "job.toml: is not UTF-8 at byte 0"),
        (b'{"text": "x"}', "job.toml: is not TOML: "),
        (b"a = " + b"[" * 100_000, "job.toml: is not TOML: "),
    ],
)
def test_a_job_file_that_is_something_else(capfd, listing, content, message):
    """Another encoding and another format are told apart."""
    (listing.parent / "job.toml").write_bytes(content)
    said = run(capfd, listing, "--config", "job.toml")
    assert said.code == 2
    (line,) = said.lines
    assert message in line


def test_a_job_file_that_is_not_there(capfd, listing):
    """It is refused by name."""
    said = run(capfd, listing, "--config", "none.toml")
    assert (said.code, said.lines) == (
        2,
        ["splitter: --config none.toml: cannot be read: No such file or directory; check its path"],
    )


def test_help_shows_the_recipes_options(capfd, listing):
    """`--recipe X --help` shows types, choices, defaults and the docstring, apart from the run's."""
    text = run(capfd, listing, "--help").out
    own, _, rest = text.partition("Run options:")
    own = " ".join(own.partition("Options of the recipe")[2].split())
    assert own.startswith("(Take a parameter of every kind.):")
    for expected in (
        "--flag / --no-flag Whether the flag is up.",
        "--number INTEGER How many. [default: 3]",
        "--factor FLOAT [default: 10]",
        "--mode [fast|slow] [default: fast]",
        "--level [1|2] [default: 1]",
        "--codec [WAV|MP3] Which: a colon, and more. [default: WAV]",
        "--maybe INTEGER --other FLOAT",
        "--names TEXT",
        "--command TEXT",
    ):
        assert expected in own
    assert "hidden" not in text
    assert "--workers TEXT" in rest
    assert "--number" not in rest


def test_help_of_a_recipe_without_options(capfd, listing):
    """Only the run's options are shown."""
    said = run(capfd, listing, "--help", recipe="Plain")
    assert said.code == 0
    assert "Options of the recipe" not in said.out


@pytest.mark.parametrize("recipe", ["Required", "Inherits"])
def test_a_parameter_without_a_default_is_required(capfd, listing, recipe):
    """Its absence is refused by name; with it the run goes."""
    said = run(capfd, listing, recipe=recipe)
    assert said.code == 2
    assert "Missing option '--count'" in said.err
    assert run(capfd, listing, "--count", "1", recipe=recipe).code == 0


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("TakesAFunction", "its parameter 'function' is a type, which the command line cannot pass"),
        ("Unknown", "a type hint of __init__ cannot be read: name 'Nowhere' is not defined"),
    ],
)
def test_a_parameter_that_no_command_line_can_give(capfd, listing, recipe, message):
    """It is refused with its name."""
    said = run(capfd, listing, recipe=recipe)
    assert said.code == 2
    assert message in said.err


def test_a_recipe_that_takes_anything(capfd, listing):
    """*args and **kwargs are no options."""
    assert "Options of the recipe" not in run(capfd, listing, "--help", recipe="Open").out


def test_a_recipe_that_refuses_its_parameters(capfd, listing):
    """What its __init__ raises is one line, with exit code 2."""
    said = run(capfd, listing, "--even", "3", recipe="Particular")
    assert (said.code, said.lines) == (2, ["splitter: Particular: ValueError: 3 is odd"])


RUN_OPTIONS = [
    "column",
    "root",
    "delimiter",
    "pattern",
    "rename",
    "keep_extension",
    "limit",
    "sink",
    "executor",
]
RUN_OPTIONS += [
    "workers",
    "batch_size",
    "device",
    "timeout",
    "memory",
    "retries",
    "max_failures",
    "retry_failed",
]
RUN_OPTIONS += ["fresh", "prune", "quiet"]


@pytest.mark.parametrize("name", [*RUN_OPTIONS, "dataset", "recipe", "output", "config", "help"])
def test_a_parameter_named_like_an_option_of_the_run(capfd, folder, name):
    """It is refused by name, since it could not be given."""
    write_files(folder, {"a.txt": "", "own.py": "from splitter import ProcessorDataset\n\n\n"})
    with (folder / "own.py").open("a") as file:
        file.write(f"class Own(ProcessorDataset):\n    def __init__(self, inputs, {name}=1):\n        pass\n")
    said = here(capfd, "run", folder, "--recipe", f"{folder}/own.py:Own", "--output", folder / "out")
    assert said.code == 2
    assert f"its parameter {name!r} is the name of a run option; rename it" in said.err


@pytest.mark.parametrize("name", RUN_OPTIONS)
def test_the_same_from_python(folder, name):
    """`dataset.run` refuses it too."""
    from splitter import ProcessorDataset
    from splitter.errors import Refused

    namespace: dict[str, type] = {"ProcessorDataset": ProcessorDataset}
    code = f"""
class Own(ProcessorDataset):
    def __init__(self, inputs, {name}=1):
        super().__init__(inputs)
"""
    exec(code, namespace)  # noqa: S102
    with pytest.raises(Refused, match=f"its parameter '{name}' is the name of a run option"):
        namespace["Own"]([]).run(folder / "out")


def test_a_number_is_the_same_however_it_is_given(capfd, listing):
    """10 as default, `--factor 10`, 10.0 in a job file: no finished work is done again."""
    (listing.parent / "job.toml").write_text("factor = 10.0")
    assert run(capfd, listing).code == 0
    for arguments in (["--factor", "10"], ["--factor", "1e1"], ["--config", "job.toml"], ["--number", "3"]):
        assert "nothing to do" in run(capfd, listing, *arguments).err


def test_parameters_are_kept_as_they_were_given(listing):
    """In run.json, which tells the next run what changed."""
    from splitter.recipes.words import Words

    Words(listing, num_chars=3, overlap=2).run(listing.parent / "out", workers=0, quiet=True)
    how = json.loads((listing.parent / "out/.splitter/run.json").read_text())
    assert (how["parameter num_chars"], how["parameter overlap"]) == (3, 2)


def test_a_recipe_for_sound_declares_only_what_is_its_own():
    """`**shared` stands for what recipes for sound share: in the signature, the help and the fingerprint."""
    from splitter.recipes.parameters import recipe_parameters
    from splitter.recipes.sound import LabelledRecipe

    class Halves(LabelledRecipe):
        """Cut recordings in two.

        Args:
            where: Which part comes first.
            format: Only some formats.
        """

        def __init__(self, inputs, where: float = 0.5, *, late: bool = False, **shared):
            super().__init__(inputs, **shared)
            self.where, self.late = where, late

        def spans(self, source, input_file):
            raise NotImplementedError

    parameters = {one.name: one for one in recipe_parameters(Halves)}
    assert [*parameters] == [
        *(
            "where",
            "sample_rate",
            "channels",
            "format",
            "subtype",
            "lossy",
            "truncated",
            "loudness",
            "true_peak",
            "annotations",
            "label_column",
        ),
        *("min_overlap", "cross", "measure", "late"),
    ]
    assert parameters["format"].help == "Only some formats."
    assert parameters["sample_rate"].help == "Samples per second. Default: as recorded."
    assert parameters["channels"].kind == ("keep", "mono", "split", "first")
    recipe = Halves("list.csv", 1, 8000, min_overlap="1")
    assert (recipe.where, recipe.late, recipe.target.sample_rate) == (1, False, 8000)
    assert (
        dict(recipe.parameters) | {"where": 1.0, "sample_rate": 8000, "min_overlap": "1"} == recipe.parameters
    )
    with pytest.raises(
        TypeError, match=r"Halves.__init__\(\) got an unexpected keyword argument 'sampl_rate'"
    ):
        Halves("list.csv", sampl_rate=8000)


def test_a_users_own_signature_stays_as_it_is():
    """`*args` and `**kwargs` mean what they mean in Python; only `**shared` is more."""
    from splitter.recipes.chunk import Chunk

    class Passing(Chunk):
        def __init__(self, *args, **kwargs):
            kwargs.setdefault("format", "flac")
            super().__init__(*args, **kwargs)

    class WithModel(Chunk):
        def __init__(self, inputs, *, model, **kwargs):
            self.extra = kwargs.pop("extra", None)
            super().__init__(inputs, **kwargs)
            self.model = model

    class Mixin:
        pass

    class Mixed(Mixin, Chunk):
        def __init__(self, inputs, **shared):
            super().__init__(inputs, **shared)

    passing = Passing("list.csv", 3)
    assert (passing.length, passing.target.format) == (3, "flac")
    with_model = WithModel("list.csv", model="m", extra=1, seconds=4)
    assert (with_model.model, with_model.extra, with_model.length) == ("m", 1, 4)
    assert Mixed("list.csv", seconds=5).length == 5


def test_a_recipe_for_sound_from_elsewhere_may_look_at_samples(tmp_path):
    """As they are decoded, not as integers that are rounded for files."""
    from splitter.audio.decoded import DecodedSource
    from splitter.recipes.chunk import Chunk
    from splitter.recipes.sound import SoundRecipe
    from splitter.recipes.spans import Span

    soundfile.write(tmp_path / "a.ogg", [0.25, -0.5, 0.75] * 1000, 8000)

    class Loudest(SoundRecipe):
        """Cut off what comes after the largest sample."""

        def spans(self, source, input_file):
            blocks = [*source.frames(0, source.reach(1 << 30))]
            assert {block.dtype.kind for block in blocks} == {"f"}
            yield Span(Fraction(0), Fraction(int(np.concatenate(blocks).argmax()) + 1, source.recorded.rate))

    class Peaks(Chunk):
        """Say how loud a recording is."""

        def process(self, input_file):
            with DecodedSource.open(input_file.path, self.target, self.truncated) as sound:
                return (), {"loudest": max(float(block.max()) for block in sound.blocks())}

    options = {"format": "wav", "subtype": "PCM_16"}
    inputs = [{"input": str(tmp_path / "a.ogg")}]
    ((piece,), _) = Loudest(inputs, **options)[0]
    assert piece.metadata["frames"] > 0
    assert Peaks(inputs, **options)[0][1]["loudest"] % 2**-15
