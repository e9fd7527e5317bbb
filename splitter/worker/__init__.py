"""One batch in one worker: process, store, commit.

messages       what driver and worker send each other: jobs, batches, reports
counts         counts from commit records, where reports are missing
worker         `Worker`: sets a recipe up and runs batches, in a runner or in the driver
batch          a batch in progress: processes each input, then publishes and commits all of them
fused          stages of a pipeline that process the outputs of a batch before it is committed
group          a batch in progress that makes shards
tools          `WorkerTools`: what all batches of a worker share, such as journal and fetcher
rows           the manifest rows of an input, and the names that --name gives to its outputs
failures       turns an exception into a row of errors.csv
runner         the process that runs user code
guard          the process that survives a bad input, and names it
surroundings   undoes what user code changes in its process
"""
