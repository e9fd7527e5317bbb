"""Dataset lists, folders, shards and stores -> input files.

listing      `InputList`, and how it becomes a header and rows
lists        CSV, TSV, JSONL and Parquet lists
folders      the files of a folder, here or at a URL
objects      Python lists, DataFrames and datasets
labels       --labels: columns joined from another file
where        --where: a condition over the columns
next_stage   the manifest of one run as the list of the next
table        the copy of the list: rows on disk, a few numbers for each in memory
survey       one look at every input, before any work
roots        the folder or URL that relative paths start from
locations    the size and time of a file or URL, and its fingerprint
fetching     remote inputs, fetched ahead of use
shards       inputs that lie in shards
"""
