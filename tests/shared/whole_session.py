"""The setup of every session of tests, whichever are selected; pyproject.toml names it as a plugin."""

import compileall
import gc
import itertools
import os
import re
import signal
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Until the tests are collected, keep the modules whose asserts pytest has rewritten, even if
# PYTHONDONTWRITEBYTECODE is set: to rewrite them, and those of plugins, takes each process four seconds.
_writes_no_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, False

import nightly  # noqa: E402, F401 - the profile for properties
from huge_pages import use_huge_pages  # noqa: E402

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

CHECKOUT = Path(__file__).parents[2]
OWN_CLUSTERS = re.compile(r"test_ray_(code|data|display|growth|hosts|start)\.|a-cluster")
# a cluster sometimes ends by itself, so this many tests on Ray may need a second try
MOST_TRIED_AGAIN = 2
TESTS_IN_HUGE_PAGES = 100
_tests = itertools.count(1)
# large parts of installed packages that nothing here imports
UNUSED = re.compile(
    r"/(_?tests?|sympy|sklearn|_inductor|_dynamo|torch/(ao|onnx|testing|_export|_numpy|_vendor)|trio|torchgen|"
    r"torch/distributed/(fsdp|tensor|checkpoint|elastic|pipelining)|_aot_autograd|google/(auth|api_core)|"
    r"pygments/lexers|numba/cuda|mypyc?|setuptools|ray/(rllib|serve|tune|train|llm)|jedi|parso|"
    r"prompt_toolkit|pyasn1_modules|moto/(?!core|cloudwatch|events|iam|moto|s3|util)[a-z0-9]+|mpmath|narwhals|"
    r"devtools|distlib|virtualenv|huggingface_hub/cli|numpy/distutils|wcwidth|"
    r"onnxruntime/(quantization|tools|transformers))/"
)
# fixtures that start processes, servers and browsers
SLOW_FIXTURES = {
    *("launcher_process", "mounting_process", "server", "s3_server", "disk", "site"),
    *("chromium_of_all", "speech_output", "troubled_output", "many_output", "loose"),
}

# Hugging Face's library reads these when it is imported, and then fetches nothing and leaves nothing behind
_CACHE = tempfile.TemporaryDirectory(prefix="splitter-tests-", ignore_cleanup_errors=True)
os.environ |= {"HF_HOME": _CACHE.name, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
os.environ |= {"HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
# librosa compiles much when it is first imported, and the tests use little of it
os.environ.setdefault("NUMBA_OPT", "0")


def pytest_configure(config: pytest.Config) -> None:
    """Let the programs that tests start obey signals, even if a shell started pytest in the background."""
    config.addinivalue_line("markers", "slow: takes long; `-m 'not slow'` is the quick loop")
    config.addinivalue_line("markers", "quick: is in the quick loop though it starts processes")
    config.option.rerun_show_tracebacks = True
    if config.option.max_suite_reruns is None:
        config.option.max_suite_reruns = MOST_TRIED_AGAIN
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if not hasattr(config, "workerinput"):
        _compile()
    gc.disable()


def _compile() -> None:
    """Compile once what a thousand programs import, even if PYTHONDONTWRITEBYTECODE is set.

    Installed packages are compiled if pip has not done it, without large parts that nothing here imports.
    """
    compileall.compile_dir(CHECKOUT / "splitter", quiet=2)
    ray = find_spec("ray")
    if ray and ray.cached and not os.path.exists(ray.cached):
        compileall.compile_dir(sysconfig.get_path("platlib"), quiet=2, workers=0, rx=UNUSED)


def pytest_collection_finish() -> None:
    """Leave existing objects out of garbage collection, which would copy them into the forks of tests."""
    sys.dont_write_bytecode = _writes_no_bytecode
    gc.freeze()
    gc.enable()
    use_huge_pages()


def pytest_runtest_teardown() -> None:
    """Use huge pages again now and then: each that is written to after a fork becomes small ones."""
    if not next(_tests) % TESTS_IN_HUGE_PAGES:
        use_huge_pages()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that start clusters first, since they take longest; they may be tried once more.

    The failure of the first try is still shown, and the summary names the test. All other tests have one try.
    Tests that share a cluster come after those that need none or start another.
    """
    items.sort(
        key=lambda item: (not of_ray(item.path.name), "_clusters" in getattr(item, "fixturenames", ()))
    )
    for item in items:
        if isinstance(item, pytest.Function) and of_ray(item.path.name):
            item.add_marker(pytest.mark.flaky(reruns=1))
        if is_slow(item):
            item.add_marker(pytest.mark.slow)


def is_slow(item: pytest.Item) -> bool:
    """Return whether a test is to be marked as slow, which the quick loop leaves out."""
    if not isinstance(item, pytest.Function):
        # an example of the documentation; the examples in docstrings start nothing
        return item.path.suffix != ".py"
    is_property = getattr(item.function, "is_hypothesis_test", False)
    takes_long = is_property or bool(SLOW_FIXTURES & {*item.fixturenames})
    return of_ray(item.path.name) or (takes_long and not item.get_closest_marker("quick"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "LoadScopeScheduling":
    """Give all tests of a file to one of several processes (`-n 2`), and all that share a cluster, too.

    So the fixtures of a module are made once. Tests that start their own clusters also share a process, which
    runs them one by one.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            name = Path(file).name
            if not of_ray(name):
                return file
            return "own clusters" if OWN_CLUSTERS.match(name) else "ray"

    config.option.loadscopereorder = False
    return ByFile(config, log)


def of_ray(name: str) -> bool:
    """Return whether the tests in a file of this name start a cluster."""
    return bool(re.match(r"(test_)?ray|a-cluster", name))
