"""Check that everything that earlier runs left is present and unchanged: `splitter verify`.

check               the whole check: the records, the tables, the outputs, and that nothing else is there
output_files        output files and shards against their rows, in one of several processes
shards              a shard against its checksum, or each output in it against its row
table_differences   the rows in which a table differs from the commit records
own_files           the files of `.splitter`
dropped_inputs      inputs that an earlier stage of a pipeline dropped after use
reproduce           --deep: process inputs again, and compare the outputs
findings            what was found, and how it is printed
"""
