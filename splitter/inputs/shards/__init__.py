"""Inputs in shards: tar archives, Parquet files, Arrow files.

index      the shards of a list, and where in them each input is
scan       one look at each shard: its inputs and their labels
archives   the samples of a tar archive
parquet    the rows of a Parquet file
arrow      the rows of an Arrow file
reader     the inputs of a shard, as a worker reads them
"""
