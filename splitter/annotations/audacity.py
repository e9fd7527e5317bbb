"""Label tracks as Audacity exports them: start, end and text between tabs."""

from collections.abc import Iterator

from splitter.annotations.rows import Malformed, Row, is_number, lines, with_point

_FREQUENCIES = ("low_freq_hz", "high_freq_hz")


def read_audacity(text: str) -> Iterator[Row]:
    """Yield one label per line; a line that starts with a backslash has frequencies of the label before."""
    row: Row | None = None
    for number, line in lines(text):
        if not line.strip():
            continue
        first, _, rest = line.partition("\t")
        second, _, third = rest.partition("\t")
        if first == "\\":
            if row is None or row.names:
                raise Malformed(number, "has frequencies, but there is no label before it")
            row = row._replace(names=_FREQUENCIES, values=(second.strip(), third.strip()))
            continue
        if row:
            yield row
        if not rest:
            raise Malformed(
                number, "is not an Audacity label: expected start, end and text, separated by tabs"
            )
        row = Row(number, with_point(first), with_point(second), third.strip())
    if row:
        yield row


def looks_like_audacity(text: str) -> bool:
    """Return whether the first line is a label."""
    first = next((line for _, line in lines(text) if line.strip()), "")
    times = first.split("\t")[:2]
    return len(times) > 1 and all(is_number(with_point(time)) for time in times)
