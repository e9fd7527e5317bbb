"""What runs batches. A new executor is a new file here that passes the conformance suite.

registry    executors by name
base        the seam `Executor`
local       worker processes on this machine
ray         tasks on a Ray cluster
temporary   a few batches into temporary space
"""
