"""A page that shows the outputs of a run: `splitter report`, and `splitter serve` to serve it.

table     the rows of the page
levels    loudness, silence and clipping of sound
worth     what to listen to first
looking   outputs and recordings, read, and measured for the page
summary   the numbers, plots and failures at the top
page      the page, assembled into one file
writing   the page, written next to the outputs
serving   the server
progress  the progress of a run, read from what the run writes
watching  the page that shows this progress
"""
