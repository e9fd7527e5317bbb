"""What users read when they make a mistake: one line that names the thing and says what to do."""

import re
import shlex
import sys

import pytest
import torch
from doors import here, program, read_table, write_files

RECIPES = """\
from splitter import OutputFile, ProcessorDataset


class Text(ProcessorDataset):
    def process(self, input_file):
        return "text"


class Nothing(ProcessorDataset):
    def process(self, input_file):
        pass


class Three(ProcessorDataset):
    def process(self, input_file):
        return [], {}, 3


class Folder(ProcessorDataset):
    def process(self, input_file):
        return [OutputFile("a/b.txt", "x")], {}


class Content(ProcessorDataset):
    def process(self, input_file):
        return [OutputFile("b.txt", 5)], {}


class Nested(ProcessorDataset):
    def process(self, input_file):
        return [], {"list": [1]}


class Hides(ProcessorDataset):
    def process(self, input_file):
        return [], {"speaker": 1}


class Typed(ProcessorDataset):
    metadata_types = {"age": int}

    def process(self, input_file):
        return [], {"age": 1}


class Same(ProcessorDataset):
    def process(self, input_file):
        return [OutputFile("a", "x"), OutputFile("A", "y")], {}


class Clash(Text):
    def __init__(self, inputs, workers: int = 1):
        super().__init__(inputs)


class Needs(Text):
    def __init__(self, inputs, model: str):
        super().__init__(inputs)


class Lazy(Text):
    def __init__(self, inputs):
        pass


class Broken(ProcessorDataset):
    def setup(self):
        raise RuntimeError("no weights")

    def process(self, input_file):
        raise ValueError("bad header")


class Raises(ProcessorDataset):
    def process(self, input_file):
        raise ValueError("bad header")


class Half(Raises):
    def process(self, input_file):
        return ([], {}) if "b" in input_file.input else super().process(input_file)


class Empty(ProcessorDataset):
    pass


class Alone(ProcessorDataset):
    def process(self):
        pass


class One(ProcessorDataset):
    def process(self, input_file):
        return OutputFile("out.wav", b"")


class Bare(ProcessorDataset):
    def process(self, input_file):
        return OutputFile("out.wav", b""), {}
"""

BAD_DEFAULT = """\
from splitter import ProcessorDataset


class Three(ProcessorDataset):
    def __init__(self, inputs, n: int = "three"):
        super().__init__(inputs)

    def process(self, input_file):
        return [], {}
"""

FILES = {
    "mine.py": RECIPES,
    "syntax.py": "class One:\n    def process(self:\n        pass\n",
    "imports.py": "import no_such_package\n",
    "raises.py": "\n1 / 0\n",
    "plain.py": "class One:\n    pass\n",
    "bad.py": BAD_DEFAULT,
    "words/a.txt": "simple",
    "words/b.txt": "scaleable",
    "list.csv": "input,speaker\nwords/a.txt,7\nwords/b.txt,8\n",
    "one.csv": "input,speaker\nwords/a.txt,7\n",
    "nothing.csv": "",
    "no_input.csv": "path,speaker\na,b\n",
    "twice.csv": "input\nwords/a.txt\nwords/a.txt\n",
    "excel.csv": "sep=;\ninput;speaker\nwords/a.txt;7\n",
    "short.csv": "input,speaker\nwords/a.txt\n",
    "names.csv": "input,input\na,b\n",
    "collide.csv": "input\nwords/a.txt\nwords/a.md\nwords/b.txt\nwords/a.wav\n",
    "list.json": "[]",
    "list.jsonl": '{"input": "words/a.txt"}\n{"input": \n',
    "labels.csv": "speaker,age\n7,30\n7,40\n",
    "twins.csv": "input,age,age\nwords/a.txt,30,40\n",
    "options.toml": "secnds = 5\n",
    "broken.toml": "seconds = = 5\n",
    "list.toml": "seconds = [1, 2]\n",
    "taken/notes.txt": "mine",
    "broken.tar": "no archive",
    "empty/.hidden": "",
    "hidden.csv": "input,frames,word,age,label,source_rate\nwords/a.txt,1,2,3,4,5\n",
    "begin.csv": "input,begin,finish,label\nwords/a.txt,1,2,x\n",
    "plan.csv": "__key__,@wav\na,nowhere.wav\n",
}

# Each command is refused with exit code 2, before anything is written, and this is all that it says.
REFUSED = """\
$ runn list.csv
No such command 'runn'. Did you mean 'run'? See splitter --help
$ run
Missing argument 'DATASET...'; see splitter run --help
$ run list.csv --secs 5
No such option '--secs'; did you mean '--seconds'? See splitter run --help
$ run list.csv --secondss 5
No such option '--secondss'; did you mean '--seconds'? See splitter run --help
$ run list.csv --recipe words --command x
'--command' is an option of --recipe command; see splitter run --recipe command --help
$ run list.csv --threshold 3
'--threshold' is an option of --recipe speech; see splitter run --recipe speech --help
$ plan list.csv --recipe words --max-seconds 3
'--max-seconds' is an option of --recipe pauses, silence and speech; see splitter plan --recipe pauses --help
$ run list.csv --fres
No such option '--fres'; see splitter run --help
$ run list.csv --prun
No such option '--prun'; see splitter run --help
$ run list.csv --seconds many
Invalid value for '--seconds': 'many' is not a valid float; see splitter run --help
$ run list.csv --seconds
Option '--seconds' requires an argument
$ run list.csv --seconds 0
--seconds 0: must be more than 0
$ run list.csv --overlap 20
--overlap 20: must be at least 0 and less than --seconds, which is 10
$ run list.csv --format wave
Invalid value for '--format': 'wave' is not one of 'same', 'wav', 'flac', 'ogg', 'mp3'; see splitter run --help
$ run list.csv --sample-rate 0
--sample-rate 0: must be from 1,000 to 1,000,000 Hz
$ run list.csv --sample-rate 7
--sample-rate 7: must be from 1,000 to 1,000,000 Hz; did you mean 7000?
$ run list.csv --sample-rate 16
--sample-rate 16: must be from 1,000 to 1,000,000 Hz; did you mean 16000?
$ run list.csv --recipe segments --sample-rate 44
--sample-rate 44: must be from 1,000 to 1,000,000 Hz; did you mean 44100?
$ run list.csv --sample-rate 999
--sample-rate 999: must be from 1,000 to 1,000,000 Hz
$ run list.csv --recipe words --num-char 5
No such option '--num-char'; did you mean '--num-chars'? See splitter run --recipe words --help
$ run list.csv --recipe chnk
--recipe chnk: is not a recipe; did you mean 'chunk'?
$ run list.csv --recipe mine.py
--recipe mine.py: names a file; write mine.py:Class; it has Text, Nothing, Three, Folder, Content, Nested, Hides, Typed, Same, Clash, Needs, Lazy, Broken, Raises, Half, Empty, Alone, One, Bare
$ run list.csv --recipe plain.py
--recipe plain.py: names a file; it has no subclass of ProcessorDataset
$ run list.csv --recipe bad.py
--recipe bad.py: names a file; write bad.py:Three; it has Three
$ run list.csv --recipe bad.py:Three
bad.py:Three: its parameter 'n' has an invalid default: 'three' is not a valid integer; fix it
$ run list.csv --recipe bad.py:Three --n four
Invalid value for '--n': 'four' is not a valid integer; see splitter run --recipe bad.py:Three --help
$ run list.csv --recipe gone.py
--recipe {here}/gone.py: there is no such file
$ run list.csv --recipe gone.py:Mel
--recipe {here}/gone.py: there is no such file
$ run list.csv --recipe syntax.py:One
--recipe {here}/syntax.py: line 2: '(' was never closed
$ run list.csv --recipe imports.py:One
--recipe {here}/imports.py: ModuleNotFoundError: No module named 'no_such_package' (line 1 of {here}/imports.py)
$ run list.csv --recipe raises.py:One
--recipe {here}/raises.py: ZeroDivisionError: division by zero (line 2 of {here}/raises.py)
$ run list.csv --recipe plain.py:One
--recipe plain.py:One: One is not a ProcessorDataset in plain.py; it has no subclass of ProcessorDataset
$ run list.csv --recipe mine.py:Txet
--recipe mine.py:Txet: Txet does not exist in mine.py; it has Text, Nothing, Three, Folder, Content, Nested, Hides, Typed, Same, Clash, Needs, Lazy, Broken, Raises, Half, Empty, Alone, One, Bare
$ run list.csv --recipe no_such_module:Text
--recipe no_such_module: there is no such module; for a file, write path/to/file.py:Class
$ run list.csv --recipe mine.py:Clash
mine.py:Clash: its parameter 'workers' is the name of a run option; rename it
$ run list.csv --recipe mine.py:Needs
Missing option '--model'; see splitter run --recipe mine.py:Needs --help
$ run list.csv --recipe mine.py:Lazy
Lazy: its __init__ must call super().__init__(inputs), and not set self.inputs itself
$ run list.csv --recipe mine.py:Empty
Empty: has no method process(self, input_file); write one
$ run list.csv --recipe mine.py:Alone
Alone: process cannot be called (too many positional arguments); write process(self, input_file)
$ run empty
{here}/empty: it holds no file, except files whose names begin with a dot; check DATASET
$ plan words --pattern *.wav --pattern *.flac
{here}/words: no file in it matches --pattern '*.wav' or '*.flac'; there is 'a.txt', for example
$ run list.csv --recipe words --where speaker==9
--where 'speaker==9': none of 2 rows matches; fix the condition
$ run gone.csv
{here}/gone.csv: no such file or folder; did you mean 'one.csv'?
$ run gone
{here}/gone: no such file or folder; check its path
$ run no_inputs.csv --recipe no-matter
{here}/no_inputs.csv: no such file or folder; did you mean 'no_input.csv'?
$ run --recipe words no_inputs.csv
{here}/no_inputs.csv: no such file or folder; did you mean 'no_input.csv'?
$ run nothing.csv --recipe words
{here}/nothing.csv: is empty; a dataset list starts with a line of column names
$ run no_input.csv --recipe words
{here}/no_input.csv: has no column 'input'; it has 'path', 'speaker'; name the column of the paths with --column; the first line must hold the names of the columns
$ run excel.csv --recipe words
{here}/excel.csv: has no column 'input'; it has 'sep=;'; remove the first line, which only Excel reads
$ run twice.csv --recipe words
words/a.txt: is listed twice, in rows 1 and 2; remove one, or use a recipe that groups rows
$ run short.csv --recipe words
{here}/short.csv: line 2 has 1 columns where the first line has 2; fix that line
$ run names.csv --recipe words
the column 'input' occurs twice in the dataset list; rename one
$ run collide.csv --recipe words
words/a.md: its outputs would go to the same folder as those of words/a.txt, and likewise for 1 more pair; use --keep-extension, or rename one
$ run list.json --recipe words
{here}/list.json: has no column 'input'; it has '[]'; name the column of the paths with --column; the first line must hold the names of the columns
$ run list.jsonl --recipe words
{here}/list.jsonl: line 2 is not JSON (Expecting value: line 2 column 1 (char 11)); fix that line
$ run list.csv --recipe words --where speaker=7
--where 'speaker=7': is not a condition (invalid syntax); write == to compare
$ run list.csv --recipe words --where age==7
--where 'age==7': there is no column 'age'; there is 'input', 'speaker' (write text in quotes)
$ run list.csv --recipe words --where speaker==7 --where speaker==8
--where is given 2 times; use it once, with 'and' between the conditions; see splitter run --help
$ run list.csv --recipe words --labels labels.csv --labels more.csv
--labels is given 2 times; use it once; see splitter run --help
$ run list.csv --recipe words --labels gone.csv
{here}/gone.csv: cannot be read: No such file or directory; check its path
$ run list.csv --recipe words --labels labels.csv
labels.csv: has no column 'input' to join by; it has 'speaker', 'age' (--on COLUMN, or --on COLUMN=ITS-COLUMN)
$ run list.csv --recipe words --labels labels.csv --on speaker
labels.csv: 1 key in column 'speaker' occurs more than once ('7'); keep one row of each
$ run list.csv --recipe words --labels twins.csv
the column 'age' occurs twice in twins.csv; rename one
$ run list.csv --recipe words --labels labels.csv --on age
--on age: the dataset list has no column 'age'; it has 'input', 'speaker'
$ run list.csv --recipe words --column path
{here}/list.csv: has no column 'path'; it has 'input', 'speaker'; is it --column 'input'?
$ run list.csv --recipe words --rename age=old
--rename age=…: the dataset list has no column 'age'; it has 'input', 'speaker'
$ run list.csv --recipe words --rename age
--rename 'age': write OLD=NEW
$ run list.csv --recipe words --output taken
{here}/taken: contains something else (notes.txt); choose an empty or new folder as --output
$ run list.csv --recipe words --output list.csv
{here}/list.csv: is a file, not a folder; choose another --output
$ run list.csv --recipe words --device cuda
--device cuda: this machine has no usable GPU; use --device cpu or auto
$ run list.csv --recipe words --device gpu
Invalid value for '--device': 'gpu' is not one of 'cpu', 'cuda', 'auto'; see splitter run --help
$ run list.csv --recipe words --workers many
--workers many: must be at least 0, or with Ray a range such as 2:16
$ run list.csv --recipe words --workers -1
--workers -1: must be at least 0, or with Ray a range such as 2:16
$ run list.csv --recipe words --batch-size 0
--batch-size 0: must be at least 1
$ run list.csv --recipe words --timeout 0
--timeout 0: must be a number of seconds, more than 0; leave it out for no limit
$ run list.csv --recipe words --memory much
--memory 'much': write a size such as 500MB, 2GB or 1e9
$ run list.csv --recipe words --memory 5
--memory 5: is only 5 bytes, too little for any worker; write a size such as 2GB
$ run list.csv --recipe words --memory 500k
--memory 500k: is only 500,000 bytes, too little for any worker; write a size such as 2GB
$ run list.csv --recipe words --max-failures half
--max-failures 'half': write a number such as 100, or a share such as 5%
$ run list.csv --recipe words --part 3/2
--part 3/2: write K/N, such as 1/8 for the first of eight parts, to 8/8
$ run list.csv --recipe words --limit -1
--limit -1: must be at least 1
$ run list.csv --recipe words --executor slurm
Invalid value for '--executor': 'slurm' is not one of 'local', 'ray'; see splitter run --help
$ run list.csv --recipe words --address auto
--address is only for --executor ray; add --executor ray, or leave it out
$ run list.csv --recipe words --executor ray --workers 0
--workers 0 runs in this process and cannot be combined with Ray; leave one of them out
$ run list.csv --recipe words --sink tar
Invalid value for '--sink': 'tar' is not one of 'files', 'webdataset', 'parquet', 'virtual'; see splitter run --help
$ run list.csv --recipe words --shard-size 5
--shard-size is only for shards; add --sink webdataset or parquet, or leave it out
$ run list.csv --recipe words --sink webdataset --shard-size big
--shard-size 'big': write a size such as 500MB, 2GB or 1e9
$ run list.csv --recipe words --manifest-format xml
--manifest-format 'xml': 'xml' is unknown; choose from csv, parquet, jsonl
$ run list.csv --recipe words --root gone
{here}/gone: the folder that input paths are relative to does not exist; check --root
$ run list.csv --recipe words --pattern *.txt
--pattern '*.txt' is only for a folder; leave it out, or choose rows of a list: --where "input ~ '\\.txt$'"
$ run list.csv --recipe command
Missing option '--command'; see splitter run --recipe command --help
$ run list.csv --recipe command --command cat
--command 'cat': has no {output}, the folder that outputs go to; add it, or keep what the program prints with --stdout NAME
$ run list.csv --recipe command --command 'no-such-program {output}'
'no-such-program': there is no such program to run; install it, or write its full path
$ run list.csv --recipe command --command cat --stdout a/b
--stdout 'a/b': is not the name of a file; write a name such as {stem}.txt
$ run list.csv --config options.toml
--config: 'secnds' is not an option; did you mean 'seconds'?
$ run list.csv --config broken.toml
--config broken.toml: is not TOML: Invalid value (at line 1, column 11)
$ run list.csv --config list.toml
--config: 'seconds' takes one value, not a list
$ run list.csv --config gone.toml
--config gone.toml: cannot be read: No such file or directory; check its path
$ run list.csv --recipe words --num-chars 2 --overlap 2
overlap 2: must be at least 0 and less than num-chars, which is 2
$ plan gone.csv
{here}/gone.csv: no such file or folder; did you mean 'one.csv'?
$ plan list.csv --recipe chnk
--recipe chnk: is not a recipe; did you mean 'chunk'?
$ manifest gone
{here}/gone: is not a splitter output folder; use the --output of a run
$ manifest taken
{here}/taken: is not a splitter output folder; use the --output of a run
$ manifest list.csv
{here}/list.csv: is not a splitter output folder; use the --output of a run
$ manifest gone/manifest.csv
{here}/gone: is not a splitter output folder; use the --output of a run
$ verify gone
{here}/gone: is not a splitter output folder; use the --output of a run
$ verify taken
{here}/taken: is not a splitter output folder; use the --output of a run
$ verify taken --recipe mine.py:Text
--recipe mine.py:Text: only works with --deep; add --deep, or leave --recipe out
$ split gone --train 0.8 --test 0.2
{here}/gone: is not a splitter output folder; use the --output of a run
$ split list.csv --train 1
{here}/list.csv: is not a splitter output folder; use the --output of a run
$ split taken --train 1
{here}/taken: is not a splitter output folder; use the --output of a run
$ split taken --train 1 --by speaker --by session
--by is given 2 times; use it once; see splitter split --help
$ split taken --train 1 --label speaker --label age
--label is given 2 times; use it once; see splitter split --help
$ stats taken --by speaker --by split
--by is given 2 times; use it once; see splitter stats --help
$ stats gone
{here}/gone: there is no manifest; pass the output folder of a finished run
$ stats taken
{here}/taken/manifest.csv: there is no manifest; pass the output folder of a finished run
$ report gone
{here}/gone: there is no manifest; pass the output folder of a finished run
$ report taken
{here}/taken/manifest.csv: there is no manifest; pass the output folder of a finished run
$ serve gone
{here}/gone: there is no manifest; pass the output folder of a finished run
$ tar cat
Missing argument 'INPUTS...'; see splitter tar cat --help
$ tar cat broken.tar
Missing option '--output' / '-o'; see splitter tar cat --help
$ tar sort broken.tar
Missing option '--output' / '-o'; see splitter tar sort --help
$ tar map broken.tar
Missing option '--output' / '-o'; see splitter tar map --help
$ tar create plan.csv
Missing option '--output' / '-o'; see splitter tar create --help
$ tar cat gone.tar -o out.tar
gone.tar: cannot be read: No such file or directory
$ tar cat words -o out.tar
words: is a folder; expected tar archives, or write: tar -cf - FOLDER | splitter ...
$ run hidden.csv --recipe words
the dataset list has a column 'word', which metadata of the recipe would hide; use --rename word=NEW
$ run hidden.csv
the dataset list has a column 'frames', which metadata of the recipe would hide; use --rename frames=NEW --rename source_rate=NEW
$ plan hidden.csv --recipe segments --rename frames=n --annotations beside
the dataset list has a column 'label', which metadata of the recipe would hide; use --rename label=NEW --rename source_rate=NEW
$ run begin.csv --recipe segments
the dataset list has a column 'label', which metadata of the recipe would hide; use --rename label=NEW; if its rows are the annotations, name their times start and end: --rename OLD=start
$ run hidden.csv --recipe mine.py:Typed
the dataset list has a column 'age', which metadata of the recipe would hide; use --rename age=NEW
$ tar split broken.tar -o out.tar
-o out.tar: has no number in it; write prefix-{shard:06d}.tar
$ tar create gone.csv -o out.tar
gone.csv: cannot be read: No such file or directory
$ tar create plan.csv -o out.tar
plan.csv: line 2: nowhere.wav: No such file or directory; nothing was written
$ tar map broken.tar -o out.tar
map: give a script with -c, or a program after --; see splitter tar map --help
$ tar first broken.tar speaker
Missing option '--where' / '-w'; see splitter tar first --help
$ tar show gone.tar
gone.tar: cannot be read: No such file or directory
$ tar sort broken.tar -o out.tar --by cls --by json
--by is given 2 times; use it once; see splitter tar sort --help
$ tar sort broken.tar -o out.tar --shuffle --by cls
--shuffle puts samples in random order; remove --by and --reverse
"""  # noqa: E501 - exact, and as users see them
MISTAKES = list(zip(REFUSED.splitlines()[::2], REFUSED.splitlines()[1::2], strict=True))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of files with which things go wrong."""
    monkeypatch.chdir(write_files(tmp_path / "place", FILES))
    # modules that other tests have imported from files of the same names
    for name in ("mine", "syntax", "imports", "raises", "plain", "bad"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path / "place"


@pytest.mark.parametrize(("command", "message"), MISTAKES, ids=[command[2:] for command, _ in MISTAKES])
def test_mistakes(capfd, folder, command, message):
    """A mistake is one line, with exit code 2, and nothing is written."""
    if "cuda" in command and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    before = sorted(folder.rglob("[!_]*"))
    said = here(capfd, *shlex.split(command[2:]))
    assert (said.code, said.out, said.err) == (2, "", f"splitter: {message.replace('{here}', str(folder))}\n")
    assert sorted(path for path in folder.rglob("[!_]*") if "__pycache__" not in path.parts) == before


def test_there_are_enough():
    """Over all commands."""
    assert len(MISTAKES) >= 40
    words = {command.split()[1] for command, _ in MISTAKES}
    assert words >= {"run", "plan", "manifest", "verify", "split", "stats", "report", "serve", "tar"}


EXPECTED = "expected (output files, metadata), such as: return [OutputFile(...)], {}"
BAD_RESULTS = {
    "Text": f"process returned str 'text'; {EXPECTED}",
    "Nothing": f"process returned None; {EXPECTED}",
    "Three": f"process returned tuple ([], {{}}, 3); {EXPECTED}",
    "One": f"process returned OutputFile('out.wav', <0 bytes>, {{}}); {EXPECTED}",
    "Bare": "process returned an OutputFile, not a list of them; write: return [OutputFile(...)], {}",
    "Folder": "output name 'a/b.txt' is not one path component",
    "Content": "the content of 'b.txt' is of type int; expected bytes, str, a path or a callable",
    "Nested": "metadata 'list' is of type list; expected str, int, float, bool or None",
    "Hides": "metadata key 'speaker' would hide the dataset column of that name; use --rename speaker=NEW",
    "Same": "output name 'A' is used twice (ignoring case and Unicode form)",
}


@pytest.mark.parametrize("recipe", BAD_RESULTS)
def test_a_process_that_returns_the_wrong_thing(capfd, folder, recipe):
    """The input's error says what came, and what was expected; the run's last line shows the first."""
    said = here(capfd, "run", "one.csv", "--recipe", f"mine.py:{recipe}")
    message = BAD_RESULTS[recipe]
    assert said.code == 1
    assert said.lines[-1] == (
        f"next: see errors.csv (first: words/a.txt: BadResult: {message}), fix the cause, "
        "and run again with --retry-failed"
    )
    [row] = read_table(folder / "outputs" / "errors.csv")
    assert (row["error"], row["message"]) == ("BadResult", message)


def test_a_long_failure_ends_in_an_ellipsis(capfd, folder):
    """Nobody takes the beginning of a message for all of it."""
    (folder / "long.py").write_text(RECIPES.replace('"bad header"', '"bad header " + "x" * 400'))
    last = here(capfd, "run", "one.csv", "--recipe", "long.py:Raises").lines[-1]
    assert re.search(r"bad header x{200,}…\), fix the cause", last)


def test_a_setup_that_fails(capfd, folder):
    """The run stops, with the user's own traceback, and its last line says why; so does the plan."""
    said = here(capfd, "run", "list.csv", "--recipe", "mine.py:Broken")
    line = f"Broken: setup() raised RuntimeError: no weights (line 68 of {folder}/mine.py); fix it"
    assert (said.code, said.lines[-1]) == (1, f"stopped: {line}, then run the same command to continue")
    own = [f'  File "{folder}/mine.py", line 68, in setup', '    raise RuntimeError("no weights")']
    assert said.lines[2:4] == own
    planned = here(capfd, "plan", "list.csv", "--recipe", "mine.py:Broken")
    assert (planned.code, planned.lines[1:3]) == (1, own)
    assert planned.lines[-1] == f"splitter: {line}, then run the same command to continue"


def test_another_sink(capfd, folder):
    """The note before finished work is done again names the sink, and not what only that sink has."""
    command = ["run", "list.csv", "--recipe", "words"]
    assert here(capfd, *command, "--quiet").code == 0
    assert here(capfd, *command, "--sink", "webdataset").lines[:2] == [
        "note: sink changed from 'files' to 'webdataset'",
        "note: 2 finished inputs changed and will be redone",
    ]
    # also what removes finished shards, and changes more than the sink; --quiet does not silence it
    assert here(capfd, *command, "--sink", "parquet", "--num-chars", "3", "--quiet").lines[:2] == [
        "note: parameter num_chars changed from 2 to 3; sink changed from 'webdataset' to 'parquet'",
        "note: 2 finished inputs will be redone; their shards of another sink are removed now",
    ]


def test_another_recipe(capfd, folder):
    """One note says so, without parameters that only one of the two has; all changes of those are one."""
    assert here(capfd, "run", "list.csv", "--recipe", "mine.py:Half", "--quiet").code == 1
    for options, change in (
        ([], "recipe changed from 'Half' to 'Words'"),
        (
            ["--num-chars", "3", "--overlap", "2"],
            "parameter num_chars changed from 2 to 3; parameter overlap changed from 1 to 2",
        ),
    ):
        said = here(capfd, "run", "list.csv", "--recipe", "words", *options)
        notes = [line for line in said.lines if line.startswith("note:")]
        assert notes[0] == f"note: {change}"
        assert len(notes) == 2


# -- with --verbose -----------------------------------------------------------------------------------------


def test_the_traceback_of_a_refusal(capfd, folder):
    """--verbose shows where the user's own code went wrong, and then the line; else there is only that."""
    command = ["run", "list.csv", "--recipe", "raises.py:One"]
    file = folder / "raises.py"
    line = f"splitter: --recipe {file}: ZeroDivisionError: division by zero (line 2 of {file})"
    assert here(capfd, *command).lines == [line]
    said = here(capfd, *command, "--verbose")
    assert said.code == 2
    assert said.lines[0] == "Traceback (most recent call last):"
    assert f'  File "{file}", line 2, in <module>' in said.lines
    assert said.lines[-1] == line


@pytest.mark.slow
def test_the_traceback_of_a_failure(capfd, folder):
    """--verbose shows the traceback of the first input that failed, from the user's code on.

    So does any run of which all inputs have failed: it is the recipe then that is to be mended.
    """
    command = ["run", "list.csv", "--recipe", "mine.py:Half"]
    assert "Traceback" not in here(capfd, *command).err
    assert "ValueError: bad header" in here(capfd, *command, "--verbose", "--fresh").lines
    text = (folder / "list.csv").read_text()
    (folder / "other.csv").write_text(text.replace("input", "path", 1))
    other = (
        "run",
        "other.csv",
        "--column",
        "path",
        "--recipe",
        "mine.py:Half",
        "--output",
        "other",
        "--verbose",
    )
    assert "ValueError: bad header" in here(capfd, *other).lines
    said = here(capfd, "run", "list.csv", "--recipe", "mine.py:Raises", "--fresh")
    assert said.code == 1
    start = said.lines.index("words/a.txt:")
    assert said.lines[start + 1] == "Traceback (most recent call last):"
    assert f'  File "{folder}/mine.py", line' in said.lines[start + 2]
    assert "ValueError: bad header" in said.lines
    assert said.err.count("Traceback") == 1
    where = f"line {1 + RECIPES.splitlines().index('class Raises(ProcessorDataset):') + 2} of mine.py"
    assert f".txt: ValueError in {where}: bad header)" in said.lines[-1]
    command[-1] = "mine.py:Raises"
    assert "Traceback" not in here(capfd, *command, "--fresh", "--quiet").err


def test_a_store_without_its_package(folder):
    """A missing package is named with the command that brings it."""
    (folder / "s3fs.py").write_text("raise ModuleNotFoundError(\"No module named 's3fs'\", name='s3fs')\n")
    said = program("run", "list.csv", "--recipe", "words", "--output", "s3://bucket/words", cwd=folder)
    assert said.code == 2
    assert said.lines == [
        "splitter: s3://bucket/words: a package for s3:// is missing; run: pip install 'splitter-ml[s3]'"
    ]
