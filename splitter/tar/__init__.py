"""Tools for tar shards: `splitter tar`.

targets    archives to write, which appear whole or not at all
samples    the samples of an archive: groups of its members, to read and to write
copying    `cat` and `split`
ordering   `sort`
tables     `create` and `to-csv`
showing    `first` and `show`
mapping    `map`
ray_map    `map` on a Ray cluster
"""
