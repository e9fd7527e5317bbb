"""What a run would do, before it does it: `splitter plan`.

entry_points     `dataset.plan`, and what the command line calls
forecast         how many inputs and outputs, how large, how long
estimate         what inputs will give, by their headers and by trying a few
shard_overhead   the bytes that shards take beyond the files in them
"""
