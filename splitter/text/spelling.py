"""The name that was probably meant."""

# what nobody should try because it was suggested, and how much alike names are of which one may be meant
_REMOVES = ("fresh", "prune")
_ALIKE = 0.7


def nearest(name: str, names: list[str]) -> str:
    """A hint at the name that was probably meant."""
    import difflib

    harmless = [one for one in names if one.lstrip("-") not in _REMOVES]
    close = difflib.get_close_matches(name, harmless, 1, _ALIKE)
    return f"; did you mean {close[0]!r}?" if close else ""
