"""An option of the command line that is given once."""

from collections.abc import Sequence
from typing import Any

import click


class Single(click.Option):
    """One whose second value is refused: a user who gives two expects both, and click takes the last."""

    def __init__(self, names: Sequence[str], advice: str = "", **attributes: Any) -> None:  # noqa: ANN401 - click's
        """As click has it; `advice` says what to write instead of a second one."""
        super().__init__(names, multiple=True, **attributes)
        self._advice = advice

    def process_value(self, ctx: click.Context, value: Any) -> Any:  # noqa: ANN401 - whatever was given
        """The only value, if there is one."""
        given = super().process_value(ctx, value)
        if given and len(given) > 1:
            raise click.UsageError(f"{self.opts[0]} is given {len(given)} times; give it once{self._advice}")
        return given[0] if given else None
