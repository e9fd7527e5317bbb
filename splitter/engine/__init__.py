"""The main path of a run: from a dataset list to a manifest.

entry_points   `splitter.run`, `splitter.verify`, and what the command line calls
main           what comes before the work: the list, the checks, the lock
decide         what is to be done, and what stays
rounds         the work, round after round
batches        which inputs a worker takes at a time
columns        the columns of a dataset's tables, found by trying inputs
lost_workers   the input that kills its worker, found by smaller and smaller batches
finish         the manifest from what is committed, with nothing processed
summary        what a run came to, in numbers
display        progress on the terminal, and the lines at the end
"""
