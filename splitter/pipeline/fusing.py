"""Stages that are fused with the one before: the part that the drivers of both have in it.

The driver of such a stage begins its run before there is anything to do, and offers its job to the driver
before it, whose workers then do the work of both. What they leave is done as in any other stage.
"""

import contextlib
import os
import pickle
from dataclasses import replace

import numpy as np

from splitter.engine.assignment import Assignment
from splitter.engine.batches import Planner
from splitter.errors import SplitterError
from splitter.inputs.listing import InputList
from splitter.ledger.journal import Journal
from splitter.ledger.protocol import BEGUN, generation_of
from splitter.pipeline.contents import users_of
from splitter.pipeline.definition import Stage
from splitter.pipeline.neighbours import AT_WORK, PipelineRun, StageState, Upstream
from splitter.pipeline.ranges import Ranges
from splitter.storage.base import Storage
from splitter.system.pickling import by_value
from splitter.system.recipe_code import code_beside
from splitter.text.urls import is_url
from splitter.worker.counts import counts_of
from splitter.worker.fused import MARK, FusedOrder
from splitter.worker.messages import Batch, Fused, WorkCounts

SECONDS_TO_LEAVE = 1.0
MOST_BYTES = 2_000_000


class FusedUsers:
    """The stages that are fused with a stage, as its driver knows them."""

    def __init__(self, stage: Stage, run: PipelineRun) -> None:
        self._stage, self._all_users = stage, {*users_of(stage, run.pipeline.stages)}
        self._users = [
            (run.states[one.name], FusedUsers(one, run))
            for one in run.stages
            if one.before is stage and one.fuse
        ]

    def stop(self) -> None:
        """Leave the rest to their own workers."""
        for state, users in self._users:
            state.decline()
            users.stop()
        # a batch that is lost with its worker may be half done in the folder of another stage
        self._users = []

    @property
    def are_decided(self) -> bool:
        """Whether each of them has decided if it is fused now."""
        return all(
            state.is_decided and (not state.order or users.are_decided) for state, users in self._users
        )

    def with_them(self, batch: Batch, journal: Journal) -> Batch:
        """Return a batch with the stages fused with it; with none if any of its inputs was done before."""
        if not self._users or (journal.find(np.array(batch.keys, "u8")) >= 0).any():
            return batch
        fused, _ = self._now()
        return replace(batch, fused=fused if fused.stages else None)

    def _now(self) -> tuple[Fused, set[Stage]]:
        """Return the stages that are fused with a batch now, nested and as a set."""
        stages: list[tuple[bytes, Fused]] = []
        there: set[Stage] = set()
        for state, users in self._users:
            if order := state.order:
                inner, below = users._now()  # noqa: SLF001 - its own class
                stages.append((order, inner))
                there |= {users._stage, *below}  # noqa: SLF001
        drops = self._stage.until_used and self._all_users <= there
        return Fused(tuple(stages), drops), there


class FusedWork:
    """The work that the workers of the stage before do for a stage, as its own driver sees it."""

    def __init__(self, stage: Stage, state: StageState, storage: Storage) -> None:
        self._stage, self._state, self._storage = stage, state, storage
        self._generation = 0
        self._counted: set[str] = set()

    @property
    def where(self) -> str | None:
        """The condition that outputs of the stage before must meet to be inputs of this one."""
        where = self._stage.options.where
        return self._stage.dataset.inputs.where if where is None else where

    @property
    def is_cut_off(self) -> bool:
        """Whether the stage before has lost a worker, which may have left something half done here."""
        return bool(self._generation and not self._state.order)

    def leave(self, storage: Storage, upstream: Upstream | Ranges, *, is_stopped: bool) -> None:
        """Make other workers leave the folder; if this stage is stopped, wait until they have."""
        self._state.decline()
        with contextlib.suppress(SplitterError):
            while self._generation and upstream.end == AT_WORK:
                if storage.wait_for_workers(SECONDS_TO_LEAVE) or not is_stopped:
                    return

    def offer(self, run: Assignment, listing: InputList, generation: int) -> None:
        """Offer the work of this stage to the workers of the stage before; decline if it cannot be sent."""
        source = listing.source
        folder = source.folder if is_url(source.folder) else os.path.abspath(source.folder)
        recipe, options = run.job.dataset, run.options
        together = Planner.TOGETHER_INPUTS if recipe.process_batch else None
        order = FusedOrder(
            run.job.without_inputs(),
            replace(listing, source=replace(source, folder=folder, committed=None, before=None)),
            generation,
            options.timeout,
            options.batch_size or together,
        )
        try:
            pickled = by_value(order, type(recipe))
        except Exception:  # noqa: BLE001 - a user's objects may raise anything
            self._state.decline()
            return
        sources = code_beside(type(recipe)) if run.executor.elsewhere else {}
        content = pickle.dumps((pickled, sources, order.job.storage, generation))
        # it is sent with each batch
        if len(content) > MOST_BYTES:
            self._state.decline()
            return
        self._generation = generation
        self._state.offer(content)

    def count(self) -> WorkCounts:
        """Return the counts of what was committed since the last call."""
        if not self._generation:
            return WorkCounts()
        journal = Journal(self._storage)
        try:
            names = [name for name in journal.record_names() if name not in self._counted]
            names = [name for name in names if MARK in name and not name.endswith(BEGUN)]
            names = [name for name in names if generation_of(name) == self._generation]
            journal.load_only(names)
            # without what was undone
            counts = counts_of(journal, journal.counting())
        except (SplitterError, OSError):
            return WorkCounts()
        self._counted.update(names)
        return counts
