"""What is known of a run: its commit records, the files of `.splitter`, and the tables made from them.

records         a commit record: what became of the inputs of a batch
protocol        begin, publish, commit; and how a dead batch is finished or undone
journal         all commit records of an output, and what they say of each input
status          which inputs of a list are done, failed, skipped or from before a change
run_files       the files of `.splitter`, and what to do if one is damaged
list_copy       the copy of the dataset list
part_shares     which part of a run takes which input
recipe_record   how inputs were processed: the recipe, its parameters, the sink
identity        what stands for the value of a parameter in fingerprints
unsynced        outputs that a power cut may have taken
shard_groups    which inputs share a shard
shard_ranges    the same in a pipeline, by what they are made of
manifest        the journal -> the rows of manifest.csv and errors.csv
tables          manifest.csv, errors.csv and the other tables, written and removed
formats         the manifest as Parquet, JSONL and metadata.csv
splits          train, validation and test
split_balance   which group goes into which split, so that the shares come near to what was asked
worker_notes    what workers are doing, for somebody who watches
keeping         which outputs are kept, by a condition
"""
