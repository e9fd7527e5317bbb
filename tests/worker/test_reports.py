"""Reports add up to those of larger things, and lose nothing on the way."""

from dataclasses import fields

import pytest

from splitter.worker.messages import Report

NAMES = [field.name for field in fields(Report) if field.name != "batch"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_a_report_says_is_lost_in_a_sum(name):
    """A guard adds up reports of pieces of a batch, of which one may be the only one that says something."""
    kind = type(getattr(Report(), name))
    said = ["said"] if kind is list else kind(7)
    total = Report()
    total += Report(**{name: said})
    total += Report()
    assert getattr(total, name) == said
