"""Dataset lists, folders, shards and stores -> input files.

sources      what the user names -> a header, and rows
joining      --labels; where, --where
table        rows -> input files: the list is copied, and each input is looked at once
kept         what a run keeps of its list
places       where an input is, and which folder of the output is its own
shard_inputs shards as input: archives, parquet; shards says where each input is, members reads it
fetching     remote inputs, fetched ahead of use
"""
