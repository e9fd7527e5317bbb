"""The recipe `command`: a program is given its arguments as they are, and no shell sees them."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from doors import here, read_table, tree, write_files, write_list

from splitter.errors import Refused
from splitter.recipes.command import Command

# each starts programs
pytestmark = pytest.mark.slow

# says on disk what arguments it was given, one a line, as Python literals
SHOW = "import sys; open(sys.argv[1] + '/args', 'w').write(repr(sys.argv[2:]) + open(sys.argv[-1]).read())"

HOSTILE = [
    "a b",
    "it's",
    'say "hi"',
    "; touch escaped",
    "$(touch escaped)",
    "`touch escaped`",
    "$HOME",
    "*",
    "?",
]
HOSTILE += [
    "a\nb",
    "a\\b",
    "|x",
    "&",
    "> escaped",
    "~",
    "-rf",
    "--help",
    "{output}",
    "{input}",
    "{0}",
    "%s",
    "é",
    "#x",
]


def run(source, out: Path, command, **options):
    """Run without a word, in a worker."""
    return Command(source, command).run(out, **{"workers": 1, "quiet": True, **options})


@pytest.fixture
def a(folder: Path) -> list[Path]:
    """One input."""
    return [write_files(folder, {"a.txt": "one"}) / "a.txt"]


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def test_file_names_are_never_interpreted(folder, tmp_path, monkeypatch):
    """Spaces, quotes, `;`, `$()`, newlines, braces in file names reach the program as they are."""
    monkeypatch.chdir(tmp_path)
    write_files(folder, dict.fromkeys(HOSTILE, "content"))
    write_list(folder / "l.csv", [["input"], *([name] for name in HOSTILE)])
    result = run(folder / "l.csv", tmp_path / "out", python(SHOW, "{output}", "{input}"), keep_extension=True)
    assert result.failed.empty
    found = tree(tmp_path / "out")
    for name in HOSTILE:
        assert found[f"{name}/args"].decode() == repr([f"{folder}/{name}"]) + "content"
    assert set(os.listdir(tmp_path)) == {folder.name, "out"}
    assert set(os.listdir(folder)) == {*HOSTILE, "l.csv"}


@pytest.mark.parametrize("argument", HOSTILE, ids=repr)
def test_arguments_are_never_interpreted(a, tmp_path, monkeypatch, argument):
    """As a list they are taken as they are; as text they are divided as a shell would, and nothing more."""
    monkeypatch.chdir(tmp_path)
    given = argument.replace("{input}", "").replace("{output}", "")
    expected = repr([given, str(a[0])]) + "one"
    as_list = python(SHOW, "{output}", given, "{input}")
    for number, command in enumerate((as_list, shlex.join(as_list))):
        assert run(a, tmp_path / f"out{number}", command, workers=0).failed.empty
        (text,) = [text for name, text in tree(tmp_path / f"out{number}").items() if name.endswith("/args")]
        assert text.decode() == expected
    assert "escaped" not in os.listdir(tmp_path)


def test_places_within_an_argument(a, tmp_path):
    """{input} and {output} are replaced wherever they stand, once each, and not in what replaced them."""
    command = python(SHOW, "{output}", "--from={input}:{input}", "{ input }", "{}", "{input}")
    assert run(a, tmp_path / "out", command).failed.empty
    (text,) = [text for name, text in tree(tmp_path / "out").items() if name.endswith("/args")]
    assert text.decode() == repr([f"--from={a[0]}:{a[0]}", "{ input }", "{}", str(a[0])]) + "one"


def test_the_files_it_leaves_are_the_outputs(a, tmp_path):
    """All of them, by name, hidden ones too; none is fine."""
    names = ["b", "a b", ".c", "é\n", "0"]
    code = f"import sys, os; os.chdir(sys.argv[1]); [open(name, 'w').write(name) for name in {names!r}]"
    manifest = run(a, tmp_path / "out", python(code, "{output}"))
    assert [os.path.basename(name) for name in manifest["output"]] == sorted(names)
    assert all(
        text.decode() == os.path.basename(name)
        for name, text in tree(tmp_path / "out").items()
        if "/" in name
    )
    manifest = run(a, tmp_path / "none", python("", "{output}"))
    assert list(manifest["output"]) == [""]


def test_the_name_of_the_input(folder, tmp_path):
    """{name} and {stem} are those of its file, and braces in a name stay."""
    names = {"a.b.txt": "a.b", ".c": ".c", "d": "d", "x/{stem} {output}.wav": "{stem} {output}"}
    write_files(folder, dict.fromkeys(names, "one"))
    command = python(SHOW, "{output}", "{name}", "[{stem}]", "{input}")
    assert run([folder / name for name in names], tmp_path / "out", command).failed.empty
    found = [text.decode() for name, text in tree(tmp_path / "out").items() if name.endswith("/args")]
    assert sorted(found) == sorted(
        repr([os.path.basename(name), f"[{stem}]", f"{folder}/{name}"]) + "one"
        for name, stem in names.items()
    )


def test_what_it_prints_is_an_output(a, tmp_path, capfd):
    """With --stdout, beside what it writes; what it prints as an error is not in it."""
    code = "import sys, os; print('warning', file=sys.stderr); os.write(1, bytes(range(256)))"
    code += "; len(sys.argv) == 1 or open(sys.argv[1] + '/b', 'w').write('b')"
    for number, last in enumerate(([], ["{output}"])):
        out = tmp_path / f"out{number}"
        how = ["--command", shlex.join(python(code, *last)), "--stdout", "{stem}-{name}", "--output", out]
        said = here(capfd, "run", a[0].parent, "--recipe", "command", *how, "--workers", "1", "--quiet")
        assert (said.code, said.err) == (0, "")
        expected = {"a/a-a.txt": bytes(range(256)), **({"a/b": b"b"} if last else {})}
        assert {name: text for name, text in tree(out).items() if "/" in name} == expected
        assert [row["output"] for row in read_table(out / "manifest.csv")] == [*expected]


def test_what_a_failing_program_printed_is_no_output(a, tmp_path):
    """Its error names the cause, which it printed as one."""
    code = "import sys; print('half'); print('the cause', file=sys.stderr); sys.exit(3)"
    result = Command(a, python(code), stdout="x.txt").run(tmp_path / "out", workers=1, quiet=True)
    assert list(result.failed["message"]) == [f"{sys.executable} ended with exit code 3: the cause"]
    assert set(tree(tmp_path / "out")) == {"manifest.csv", "errors.csv"}


def test_an_output_of_that_name_is_taken(a, tmp_path):
    """What it prints never replaces a file that it writes."""
    code = "import sys; print('printed'); open(sys.argv[1] + '/x', 'w').write('written')"
    result = Command(a, python(code, "{output}"), stdout="x").run(tmp_path / "out", workers=1, quiet=True)
    assert list(result.failed["error"]) == ["BadResult"]
    assert set(tree(tmp_path / "out")) == {"manifest.csv", "errors.csv"}


@pytest.mark.parametrize("name", ["", ".", "a/b", "{output}", "x{input}"])
def test_what_it_prints_needs_the_name_of_a_file(a, name):
    """Anything else is refused before work."""
    with pytest.raises(Refused, match="is not the name of a file"):
        Command(a, "cat {input}", stdout=name)


def test_a_program_from_the_path(a, tmp_path, capfd):
    """From the command line, with a program that every system has."""
    how = ["--command", "cp {input} '{output}/a copy'", "--workers", "1", "--output", tmp_path / "out"]
    said = here(capfd, "run", a[0].parent, "--recipe", "command", *how)
    assert said.code == 0, said.err
    assert tree(tmp_path / "out")["a/a copy"] == b"one"


def test_the_command_in_a_job_file(a, tmp_path, capfd):
    """As a list, so that nobody has to quote."""
    (tmp_path / "job.toml").write_text(
        f'command = ["cp", "{{input}}", "{{output}}/it\'s"]\noutput = "{tmp_path}/out"'
    )
    said = here(
        capfd, "run", a[0].parent, "--recipe", "command", "--config", tmp_path / "job.toml", "--quiet"
    )
    assert said.code == 0, said.err
    assert tree(tmp_path / "out")["a/it's"] == b"one"


FAILING = [
    ("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", "ended with exit code 3: "),
    ("raise SystemExit(1)", "ended with exit code 1"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
    ("import os; os.kill(os.getpid(), 40)", "was killed by signal 40"),
    ("import os; os.abort()", "was killed by SIGABRT"),
    ("import sys; sys.stdout.buffer.write(bytes(range(256)) + b'\\0end'); sys.exit(1)", "end"),
    ("import os, sys; os.write(2, b'x' * 5_000_000 + b'last words'); sys.exit(1)", "xlast words"),
]


@pytest.mark.parametrize(("code", "message"), FAILING)
def test_a_program_that_fails(a, tmp_path, code, message):
    """It is its input's error, with how it ended and the end of what it said; what it left does not count."""
    left = "import sys; open(sys.argv[1] + '/half', 'w').write('x'); "
    result = run(a, tmp_path / "out", python(left + code, "{output}"), max_failures=5)
    (row,) = read_table(tmp_path / "out/errors.csv")
    assert row["error"] == "CommandFailed"
    assert row["message"].startswith(f"{sys.executable} ")
    assert message in row["message"]
    assert len(row["message"]) < 10_000
    assert row["attempts"] == "1"
    assert len(result) == 0
    assert set(tree(tmp_path / "out")) == {"manifest.csv", "errors.csv"}


def test_the_last_line_comes_first(a, tmp_path, capfd):
    """A program prints a banner, warnings, and at last the cause: the line at the end of a run shows that."""
    code = "import sys; print('banner'); print('a warning\\rthe cause\\n', file=sys.stderr); sys.exit(3)"
    how = ["--recipe", "command", "--command", shlex.join(python(code, "{output}"))]
    said = here(capfd, "run", a[0].parent, *how, "--workers", "1", "--output", tmp_path / "out")
    assert said.code == 1
    assert "ended with exit code 3: the cause; before that, it printed: " in said.lines[-1]
    (row,) = read_table(tmp_path / "out/errors.csv")
    first, *others = row["message"].split("\n")
    assert first == f"{sys.executable} ended with exit code 3: the cause; before that, it printed:"
    assert sorted(others) == ["a warning", "banner"]


@pytest.mark.parametrize("program", ["no-such-program", "/etc/passwd", "./tool"])
def test_a_program_that_cannot_be_started(a, tmp_path, capfd, program):
    """It is named before any work, and what was made with another program stays."""
    run(a, tmp_path / "out", ["cp", "{input}", "{output}"])
    before = tree(tmp_path / "out")
    how = [
        "--recipe",
        "command",
        "--command",
        f"{program} {{input}} {{output}}",
        "--output",
        tmp_path / "out",
    ]
    said = here(capfd, "run", a[0].parent, *how)
    assert (said.code, said.out) == (2, "")
    problem = "there is no such program to run; install it, or write its full path"
    assert said.lines == [f"splitter: {program!r}: {problem}"]
    assert tree(tmp_path / "out") == before
    with pytest.raises(Refused, match="no such program"):
        Command(a, [program, "{output}"])[0]


def test_each_input_can_be_the_program(folder, tmp_path):
    """Then it is looked for when its turn comes."""
    script = write_files(folder, {"a.sh": "#!/bin/sh\necho made > $1/b"}) / "a.sh"
    script.chmod(0o755)
    assert run([script], tmp_path / "out", "{input} {output}").failed.empty
    assert tree(tmp_path / "out")[f"{str(script)[1:-3]}/b"] == b"made\n"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("os.mkdir('sub'); open('sub/x', 'w')", "'sub'"),
        ("os.symlink('nowhere', 'link')", "'link'"),
        ("os.mkfifo('pipe')", "'pipe'"),
        ("os.symlink('/', 'link')", "'link'"),
    ],
)
def test_what_it_leaves_must_be_files(a, tmp_path, code, message):
    """A folder, a broken link, a pipe in {output} is its input's error, and its other files do not count."""
    code = f"import sys, os; os.chdir(sys.argv[1]); open('a', 'w').write('x'); {code}"
    result = run(a, tmp_path / "out", python(code, "{output}"))
    (row,) = read_table(tmp_path / "out/errors.csv")
    assert message in row["message"]
    assert len(result) == 0
    assert set(tree(tmp_path / "out")) == {"manifest.csv", "errors.csv"}


def test_a_link_is_stored_as_what_it_points_to(a, tmp_path):
    """A link to a file gives a copy of the file, and the file stays."""
    code = "import sys, os; os.symlink(sys.argv[2], sys.argv[1] + '/link')"
    run(a, tmp_path / "out", python(code, "{output}", "{input}"))
    (stored,) = (tmp_path / "out").rglob("link")
    assert not stored.is_symlink()
    assert stored.read_text() == a[0].read_text() == "one"


def test_large_output(a, tmp_path):
    """Neither what it prints nor what it writes has to be small."""
    code = "import sys; print('x' * 20_000_000); open(sys.argv[1] + '/big', 'wb').truncate(50_000_000)"
    manifest = run(a, tmp_path / "out", python(code, "{output}"), memory="200MB")
    assert list(manifest["size"]) == [50_000_000]


def test_it_cannot_read_the_terminal(a, tmp_path):
    """Its standard input is empty, so nothing waits for a key."""
    code = "import sys; open(sys.argv[1] + '/in', 'w').write(repr(sys.stdin.read()))"
    run(a, tmp_path / "out", python(code, "{output}"))
    assert [text for name, text in tree(tmp_path / "out").items() if name.endswith("/in")] == [b"''"]


def test_it_ends_with_its_worker(a, tmp_path):
    """A program that hangs is gone when its input has timed out."""
    code = "import sys, os, time; open(sys.argv[2], 'w').write(str(os.getpid())); time.sleep(100)"
    result = run(a, tmp_path / "out", python(code, "{output}", str(tmp_path / "pid")), timeout=5)
    assert list(result.failed["error"]) == ["TimedOut"]
    pid = int((tmp_path / "pid").read_text())
    end = time.monotonic() + 60
    while time.monotonic() < end and Path(f"/proc/{pid}").exists():
        time.sleep(0.02)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ([], "is empty"),
        ("cp {input} x", "has no {output}"),
        ("cp 'x {output}", "No closing quotation"),
    ],
)
def test_a_command_that_cannot_be_one(a, tmp_path, command, message):
    """It is refused before work."""
    with pytest.raises(Refused, match=message):
        run(a, tmp_path / "out", command)
    assert not (tmp_path / "out").exists()


def test_the_command_is_required(a, capfd):
    """Without one the command line says which option is missing."""
    said = here(capfd, "run", a[0].parent, "--recipe", "command")
    assert said.code == 2
    assert "Missing option '--command'" in said.err


def test_another_command_does_all_inputs_again(a, tmp_path):
    """The command is a parameter; parts of it may be paths."""
    assert run(a, tmp_path / "out", "cp {input} {output}/x").summary.work.inputs == 1
    assert run(a, tmp_path / "out", "cp {input} {output}/x").summary.work.inputs == 0
    assert run(a, tmp_path / "out", ["cp", "{input}", Path("{output}/y")]).summary.work.inputs == 1
    assert {os.path.basename(name) for name in tree(tmp_path / "out")} == {"manifest.csv", "y"}
    # as an earlier version wrote it
    assert '"stdout"' not in (tmp_path / "out/.splitter/run.json").read_text()


def test_the_same_from_a_shell_for_comparison(a, tmp_path):
    """The outputs are what the program makes when it is run by hand."""
    (tmp_path / "by hand").mkdir()
    subprocess.run(["split", "-b", "1", str(a[0]), f"{tmp_path}/by hand/part-"], check=True)
    run(a, tmp_path / "out", "split -b 1 {input} {output}/part-")
    outputs = {os.path.basename(name): text for name, text in tree(tmp_path / "out").items() if "/" in name}
    assert outputs == tree(tmp_path / "by hand")


def test_outputs_get_metadata_from_their_names_and_from_json_beside_them(a, folder: Path):
    """A name without a match has none; JSON that describes no output is an output itself."""
    code = "import os, sys; os.chdir(sys.argv[1]); write = lambda name, text: open(name, 'w').write(text);"
    code += (
        "[write(f'page-{at}.png', 'x') for at in (1, 12)]; write('cover.png', 'x'); write('all.json', '3');"
    )
    code += 'write("page-12.json", \'{"words": 7}\')'
    options = {"name_pattern": "page-(?P<page>[0-9]+)", "json_metadata": True}
    made = Command(a, python(code, "{output}"), **options).run(folder / "out", workers=1, quiet=True)
    table = read_table(folder / "out" / "manifest.csv")
    rows = {Path(row["output"]).name: (row["page"], row["words"]) for row in table}
    assert rows == {
        "all.json": ("", ""),
        "cover.png": ("", ""),
        "page-1.png": ("1", ""),
        "page-12.png": ("12", "7"),
    }
    assert len(made) == 4
    plain = run(a, folder / "plain", python(code, "{output}"))
    assert [Path(name).name for name in plain["output"]] == sorted([*rows, "page-12.json"])
    bad = python("open(__import__('sys').argv[1] + '/a.json', 'w').write('3'); "
                 "open(__import__('sys').argv[1] + '/a.txt', 'w')", "{output}")  # fmt: skip
    failed = Command(a, bad, json_metadata=True).run(folder / "bad", workers=1, quiet=True).failed
    assert "a.json: is not a JSON object" in failed["message"][0]


@pytest.mark.parametrize("pattern", ["page-([0-9]+)", "page-(?P<page>"])
def test_a_pattern_that_names_nothing_is_refused(a, pattern):
    with pytest.raises(Refused, match="--name-pattern 'page-"):
        Command(a, "true {output}", name_pattern=pattern)
