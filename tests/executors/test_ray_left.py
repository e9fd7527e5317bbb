"""A worker that Ray has lost, and that is still at work when the run no longer waits for it."""

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from splitter.errors import StorageError
from splitter.executors.base import Cluster, Limits
from splitter.executors.ray import executor
from splitter.executors.ray.executor import RayExecutor
from splitter.ledger.journal import Journal
from splitter.storage.folder import LocalStorage


@dataclasses.dataclass
class OnlyStorage:
    """As much of a job as is needed where nothing is run."""

    storage: LocalStorage


def lose_a_worker(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the executor lose one, without a cluster, and wait for it for a moment."""
    lost = RayExecutor(Limits(1), Cluster())
    lost._lost = True
    job: Any = OnlyStorage(storage)
    lost._job, lost._mission = job, "sent"
    monkeypatch.setattr(lost, "_connect", lambda: None)
    monkeypatch.setattr(lost, "_reports", lambda *_: iter(()))
    monkeypatch.setattr(executor, "SECONDS_FOR_LOST_NODE", 0.1)
    assert [*lost.run(job, [], 1)] == []


def test_nothing_is_undone_that_a_lost_worker_may_still_do(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Otherwise it could commit outputs that were removed: the next run waits for it, or is refused."""
    storage = LocalStorage(str(folder / "outputs"))
    storage.prepare()
    journal = Journal(storage)
    with storage.locked():
        worker = copy.copy(storage)
        with worker.at_work():
            journal.begin("000001-000000", [7], ["a/0.txt"])
            lose_a_worker(storage, monkeypatch)
            with pytest.raises(StorageError, match="workers of this run are still at work there"):
                journal.recover()
        assert journal.record_names() == ["000001-000000.begun"]
    later = LocalStorage(storage.root)
    with later.locked():
        lose_a_worker(later, monkeypatch)
        Journal(later).recover()
    assert journal.record_names() == ["000001-000000"]
