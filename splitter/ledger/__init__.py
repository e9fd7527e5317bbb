"""What is known of a run: its commit records, the files of `.splitter`, and the tables made from them.

records         a commit record: what became of the inputs of a batch
journal         all commit records of an output, and what they say of each input
status          how the inputs of a list stand
run_files       the copy of the dataset list, and the shares of a run in parts
recipe_record   how inputs were processed: the recipe, its parameters, the sink
identity        what a parameter is: equal from run to run, different when it differs
unsynced        outputs that a power cut may have taken
shard_groups    which inputs share a shard
manifest        the journal -> the rows of manifest.csv and errors.csv
tables          the tables of a run, written and taken away
formats         the manifest as Parquet, JSONL and metadata.csv
splits          train, validation and test
"""
