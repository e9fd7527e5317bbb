"""What runs batches. A new executor is a new file here, with a line in `splitter.registry`.

base        the seam `Executor`
local       worker processes on this machine
ray         tasks on a Ray cluster
temporary   a few batches run for a trial or a check; their outputs are thrown away
"""
