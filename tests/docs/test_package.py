"""What is given to others: the wheel, the sdist, the image of the Dockerfile, and how to cite it."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from doors import CHECKOUT

import splitter
from splitter.cli.main import exit_code

pytestmark = pytest.mark.slow

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The folder of a wheel and an sdist, built from the checkout."""
    folder = tmp_path_factory.mktemp("built")
    build(CHECKOUT, folder)
    return folder


def build(source: Path, folder: Path, *options: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", folder, *options]
    subprocess.run(command, cwd=source, check=True, capture_output=True)


def content(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel, but for the list of them."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


def test_the_wheel_is_the_whole_package(built):
    """Every file of the package is in it, the report's page with uPlot and its licence among them."""
    [wheel] = built.glob("*.whl")
    own = {name for name in content(wheel) if name.startswith("splitter/")}
    here = (path for path in (CHECKOUT / "splitter").rglob("*") if path.is_file())
    assert own == {str(path.relative_to(CHECKOUT)) for path in here if path.suffix != ".pyc"}
    assert {
        "splitter/py.typed",
        "splitter/report/page/uPlot.LICENSE",
        "splitter/report/page/page.html",
    } <= own


def test_the_sdist_builds_the_same_wheel(built, tmp_path):
    """Who packages it for others begins there."""
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    build(source, tmp_path / "again", "-t", "wheel")
    [wheel], [again] = built.glob("*.whl"), (tmp_path / "again").glob("*.whl")
    assert content(again) == content(wheel)


def test_the_package_index_takes_them(built):
    """Their metadata is complete, and README.md can be shown there."""
    files = [path for path in built.iterdir() if path.suffix in (".whl", ".gz")]
    assert len(files) == 2
    command = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 2), done.stdout


def test_the_first_command_runs_from_the_wheel(built, tmp_path):
    """In an empty environment, with the sources out of reach; only what it depends on is lent to it."""
    [wheel] = built.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--python", python]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", wheel], check=True)
    [site] = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    # the links to the checkout of an editable installation are not followed from here
    (site / "lent.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    shutil.copytree(CHECKOUT / "data_samples", tmp_path / "data_samples")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*command: object) -> str:
        done = subprocess.run(
            list(map(str, command)), cwd=tmp_path, env=clean, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    assert run(python, "-c", "import splitter; print(splitter.__file__)") == f"{site}/splitter/__init__.py\n"
    said = run(python.parent / "splitter", "run", "data_samples/dataset.csv")
    assert "8 of 8 inputs done; 15 outputs" in said


# -- the image -------------------------------------------------------------------------------------------


def instructions() -> Iterator[tuple[str, str]]:
    """The instructions of the Dockerfile, with what each is given."""
    for line in (CHECKOUT / "Dockerfile").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            yield name, rest


def test_the_image_is_slim_and_not_run_by_root():
    """It begins with a slim Python that splitter supports, and gives up root before anything can run."""
    names = [name for name, _ in instructions()]
    given = dict(instructions())
    version = re.fullmatch(r"python:3\.(\d+)-slim", given["FROM"])
    assert version
    assert f"Programming Language :: Python :: 3.{version[1]}" in PROJECT["classifiers"]
    assert given["USER"] not in ("root", "0")
    assert f"useradd --create-home {given['USER']}" in given["RUN"]
    assert max(at for at, name in enumerate(names) if name in ("RUN", "COPY")) < names.index("USER")


def test_the_image_has_what_the_package_is_built_from(tmp_path):
    """What it copies is enough to build the wheel, and is not left out of what the builder is sent."""
    sent = (CHECKOUT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for _, rest in (one for one in instructions() if one[0] == "COPY"):
        *sources, target = rest.split()
        for source in sources:
            assert f"!{source}" in sent
            inside = tmp_path / target.lstrip("/")
            if (CHECKOUT / source).is_dir():
                shutil.copytree(CHECKOUT / source, inside, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                inside.mkdir(exist_ok=True, parents=True)
                shutil.copy(CHECKOUT / source, inside)
    build(tmp_path / "source", tmp_path / "wheel", "-t", "wheel")
    [wheel] = (tmp_path / "wheel").glob("*.whl")
    assert "splitter/__main__.py" in content(wheel)
    extras = re.search(r'"/source\[(\w+)\]"', dict(instructions())["RUN"])
    assert extras
    assert extras[1] in PROJECT["optional-dependencies"]


def test_the_commands_of_the_image_exist(capsys):
    """What it runs by itself, and to tell whether it is well, are commands that succeed."""
    given = dict(instructions())
    [program] = json.loads(given["ENTRYPOINT"])
    assert program in PROJECT["scripts"]
    health = json.loads(given["HEALTHCHECK"].removeprefix("CMD "))
    assert health[0] == program
    assert exit_code(health[1:]) == 0
    assert exit_code(json.loads(given["CMD"])) == 0
    assert splitter.__version__ in capsys.readouterr().out


def test_it_can_be_cited():
    """The version and the licence are those of the package, and what the format asks for is there."""
    citation = yaml.safe_load((CHECKOUT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert (citation["version"], citation["license"]) == (splitter.__version__, PROJECT["license"])
