"""A page that shows what a run has made: `splitter report`, and `splitter serve` to look at it from a server.

    output folder ── table ── looking ── summary ── page ── report.html

What the page shows depends on nothing but the output folder; it has no clock but that of the last run.
"""
