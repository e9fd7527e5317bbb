"""Whether everything that runs left is present and unchanged: `splitter verify`.

check               the course of it: the records, the tables, the outputs, and nothing else there
output_files        output files and shards against their rows, in one process of many
shards              a shard against its checksum, or each output in it against its row
table_differences   the rows in which a table differs from the commit records
own_files           the files of `.splitter`
dropped_inputs      inputs that an earlier stage of a pipeline has dropped after use
reproduce           --deep: inputs processed once more, and compared
findings            what was found, and how it is told
"""
