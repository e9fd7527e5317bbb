"""The main path of a run: from a dataset list to a manifest.

entry_points   `splitter.run`, `splitter.verify`, and what the command line calls
main           the main path: decide, begin, rounds, finish
assignment     what a run works on: options checked, the list read, every input looked at
sink_rules     which options make no sense with a sink
decide         what is to be done, what stays and what goes
changes        why inputs are done again, in words
taken_names    which names of outputs other inputs still have
begin          what a run says, removes and keeps before its work
rounds         the work, round after round
batches        which inputs a worker takes at a time
columns        the columns of a dataset's tables, found by trying inputs
lost_workers   the input that kills its worker, found by smaller and smaller batches
finish         the manifest from what is committed, after a run or without one
summary        what a run came to, in numbers
display        notes, and the lines at the end
progress       how far a run is, and the views of it
"""
