"""Tools for tar shards: `splitter tar`.

targets    archives to write, which appear whole or not at all
samples    the members of an archive grouped into samples, and written again
copying    `cat` and `split`
ordering   `sort`
tables     `create` and `to-csv`
showing    `first` and `show`
mapping    `map`
ray_map    `map` on a Ray cluster
"""
