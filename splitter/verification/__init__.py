"""Whether everything that runs left is present and unchanged: `splitter verify`.

check               the whole of it
shards              a shard against what its rows would make of it
table_differences   the rows in which a table differs from the commit records
own_files           the files of `.splitter`
reproduce           --deep: inputs processed once more, and compared
findings            what was found, and how it is told
repair              --repair: what has to be made again
"""
