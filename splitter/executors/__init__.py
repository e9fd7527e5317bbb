"""Executors, which run batches. A new executor is a new file here, with a line in `splitter.registry`.

base        the seam `Executor`
local       worker processes on this machine
ray         tasks on a Ray cluster
temporary   runs a few batches for a trial or a check, and throws their outputs away
"""
