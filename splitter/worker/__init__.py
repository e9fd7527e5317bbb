"""One batch in one worker: process, store, commit.

messages       what travels between driver and worker: jobs, batches, reports
worker         what sets a recipe up and runs batches, in a runner or in the driver
batch          a batch in progress: each input processed, then all published and committed
fused          stages of a pipeline that do what a batch has made, before it is committed
group          a batch in progress that makes shards
tools          `WorkerTools`: what a worker lends to each batch, such as journal and fetcher
rows           the manifest rows of an input, and the names that --name gives to its outputs
failures       an exception as a row of errors.csv
runner         the process that holds the user's code
guard          the process that survives a bad input, and names it
surroundings   what user code may change in its process
"""
