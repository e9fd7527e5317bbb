"""One batch in one worker: process, store, commit.

messages       what travels between driver and worker: jobs, batches, reports
worker         the runner's side: each input of a batch, one after the other
batch_state    what is known so far of the inputs of a batch
rows           the manifest rows of an input
failures       an exception as a row of errors.csv
guard          the process that survives a bad input
surroundings   what user code may change in its process
"""
