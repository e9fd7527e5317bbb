"""What holds for a session of tests, whichever of them are chosen; pyproject.toml names it as a plugin."""

import compileall
import os
import re
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

CHECKOUT = Path(__file__).parents[1]
# thousands of tests, hundreds of them against the clock: on a busy machine a few may fail by that alone
MOST_TRIED_AGAIN = 5

# Hugging Face's library looks at these when it is imported: nothing is fetched, nothing is left behind
_CACHE = tempfile.TemporaryDirectory(prefix="splitter-tests-", ignore_cleanup_errors=True)
os.environ |= {"HF_HOME": _CACHE.name, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
os.environ |= {"HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}


def pytest_configure(config: pytest.Config) -> None:
    """What the tests start minds signals, also where a shell started pytest in the background."""
    config.option.rerun_show_tracebacks = True
    if config.option.max_suite_reruns is None:
        config.option.max_suite_reruns = MOST_TRIED_AGAIN
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # once, and not in each of a thousand programs where PYTHONDONTWRITEBYTECODE is set
    compileall.compile_dir(CHECKOUT / "splitter", quiet=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts clusters comes first, since it takes longest; what is tried once more is told which.

    That is what fails on Ray, as a cluster fails by itself now and then, and in CI whatever fails, but for
    examples, which go on from those before them. What it has failed with is shown all the same.
    """
    items.sort(key=lambda item: not of_ray(item.path.name))
    for item in items:
        if isinstance(item, pytest.Function) and (os.environ.get("CI") or of_ray(item.path.name)):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "LoadScopeScheduling":
    """With several processes (`-n 2`) a file is one process's, and all that starts clusters is one's.

    So a module's fixtures are made once, and no two clusters take each other's CPUs.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "ray" if of_ray(Path(file).name) else file

    config.option.loadscopereorder = False
    return ByFile(config, log)


def of_ray(name: str) -> bool:
    """Whether what stands in a file of this name starts a cluster."""
    return bool(re.match(r"(test_)?ray|a-cluster", name))
