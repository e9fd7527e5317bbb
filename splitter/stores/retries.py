"""The one rule for repeating requests: at growing intervals, while a store is busy or out of reach."""

import random
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from splitter.stores.faults import TRIES, is_out_of_reach, may_pass

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 15.0

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def with_retries(
    call: Callable[Arguments, Answer], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Answer:
    """Return the answer to a request, made up to `TRIES` times while the store is busy."""
    return _repeated(
        lambda: call(*arguments, **named), lambda error, tries: tries < TRIES and may_pass(error)
    )


def with_patience(call: Callable[[], Answer], seconds: float) -> Answer:
    """Return the answer to a request, repeated for up to `seconds`, even while there is no network."""
    deadline = time.monotonic() + seconds

    def goes_on(error: Exception, _: int) -> bool:
        return (may_pass(error) or is_out_of_reach(error)) and time.monotonic() <= deadline

    return _repeated(call, goes_on)


def _repeated(call: Callable[[], Answer], goes_on: Callable[[Exception, int], bool]) -> Answer:
    pause, tries = FIRST_PAUSE, 0
    while True:
        try:
            return call()
        except Exception as error:
            tries += 1
            if not goes_on(error, tries):
                raise
        # random, so that workers that were refused together do not all come back at the same time
        time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311
        pause = min(LONGEST_PAUSE, pause * 2)
