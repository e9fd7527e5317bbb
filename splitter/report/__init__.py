"""A page that shows what a run has made: `splitter report`, and `splitter serve` to look at it from a server.

table     the rows of the page
levels    loudness, silence and clipping of sound
looking   outputs and recordings, read and measured
summary   the numbers, plots and failures at the top
page      the page, put together into one file
writing   the page, written beside the outputs
serving   the server
"""
