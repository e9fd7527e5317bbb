"""Where output files go. A new sink is a new file here, with a line in `splitter.registry`.

base         the seam `Sink`
files        loose files
shards       the common part of all sinks that make shards
webdataset   tar shards
parquet      Parquet shards
virtual      no files: rows that say how to cut each piece when it is read
discard      outputs of a trial, which are thrown away
columns      the columns of a table of outputs, decided once for a dataset
"""
