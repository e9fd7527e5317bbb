"""Reports add up to those of larger things, and lose nothing on the way."""

from dataclasses import fields

import pytest

from splitter.worker.messages import Problems, Report, WorkCounts

NAMES = [
    (kind, field.name)
    for kind in (WorkCounts, Problems, Report)
    for field in fields(kind)
    if field.name != "batch"
]


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_nothing_that_a_report_says_is_lost_in_a_sum(kind, name):
    """A guard adds up reports of pieces of a batch, of which one may be the only one that says something."""
    told = {list: ["said"], WorkCounts: WorkCounts(3), Problems: Problems(stop="said")}
    of = type(getattr(kind(), name))
    said = told.get(of) or of(7)
    total = kind()
    total += kind(**{name: said})
    total += kind()
    assert getattr(total, name) == said
