"""The main path of a run: from a dataset list to a manifest.

entry_points   `splitter.run`, `splitter.verify`, and what the command line calls
main           the main path: decide, begin, rounds, finish
assignment     the work of a run: options checked, the list read, every input looked at
sink_rules     which options make no sense with a sink
decide         what has to be done, what stays and what is removed
changes        why inputs are redone, in words
taken_names    names of outputs that still belong to other inputs
begin          what a run announces, removes and stores before its work
rounds         the work, round after round
batches        which inputs a worker takes at a time
columns        the columns of a dataset's tables, found by trying inputs
lost_workers   the input that kills its worker, found by smaller and smaller batches
finish         the manifest, made from the commit records after a run or without one
summary        the results of a run, in numbers
display        notes, and the lines at the end
progress       how far a run has got, and ways to show it
"""
