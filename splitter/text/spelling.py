"""The name that a user probably meant."""

from splitter.text.labels import EARLIER

# options that must not be suggested, and how similar a suggestion must be
_REMOVES = ("fresh", "prune")
_ALIKE = 0.7


def nearest(name: str, names: list[str]) -> str:
    """Return a hint at the name that the user probably meant; empty if no name is similar."""
    import difflib

    harmless = [one for one in names if one.lstrip("-") not in _REMOVES]
    if EARLIER + name in names:
        # the name that a column had in the earlier stage
        return f"; did you mean {EARLIER + name!r}?"
    close = difflib.get_close_matches(name, harmless, 1, _ALIKE)
    return f"; did you mean {close[0]!r}?" if close else ""
