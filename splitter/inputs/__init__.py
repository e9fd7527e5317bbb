"""Dataset lists, folders, shards and stores -> input files. A new kind of input is a new file here.

source       the seam `InputSource`
sources      the kinds of input by name, and which of them reads what DATASET names
listing      `InputList`: what a user may give as inputs
reading      an `InputList` -> a header and rows
lists        CSV, TSV, JSONL and Parquet lists
folders      the files of a folder, here or at a URL
objects      Python lists, DataFrames and dataset objects
item_content an item of a dataset object as the bytes of a file
labels       --labels: columns joined from another file
next_stage   the manifest of one run as the list of the next: its outputs, or its inputs
stages       the committed outputs of a stage as the inputs of the next one
manifests    the manifest of an earlier run: its columns, their names in the next run, what --keep left out
table        the copy of the list: rows on disk, a few numbers for each in memory
survey       one look at every input, before any work
roots        the folder or URL that relative paths start from
locations    the size and time of a file or URL, and its fingerprint
pieces       pieces without files, cut out of their recordings when they are read
fetching     remote inputs, fetched ahead of use
shards       inputs in shards
dialects     lists and folders that other tools wrote
"""
