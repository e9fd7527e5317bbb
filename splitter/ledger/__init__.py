"""What a run remembers: its commit records, the files of `.splitter`, and the tables made from them.

records         a commit record: what became of the inputs of a batch
protocol        begin, publish, commit; and how a dead batch is finished or undone
journal         all commit records of an output folder, and what they say about each input
status          which inputs of a list are done, skipped or failed, and which have changed since
run_files       the files of `.splitter`, and what to do if one is damaged
list_copy       the copy of the dataset list
part_shares     which part of a run takes which input
recipe_record   how inputs were processed: the recipe, its parameters, the sink
identity        descriptions of parameter values for fingerprints
unsynced        outputs that may have been lost in a power cut
shard_groups    which inputs share a shard
shard_ranges    the same in later stages of a pipeline, by ranges of the first stage's inputs
manifest        the rows of manifest.csv and errors.csv, made from the journal
tables          writing and removing manifest.csv, errors.csv and the other tables
formats         the manifest as Parquet, JSONL and metadata.csv
splits          train, validation and test
split_balance   which group goes into which split, so that the shares come close to the requested ones
worker_notes    what workers are doing, for `splitter serve --watch`
keeping         which outputs --keep keeps
"""
