"""The executor for a Ray cluster.

executor        `RayExecutor`: a task for each batch
cluster         joins a cluster, or starts a private one
guard_process   starts a guard for a Ray worker, and passes batches and reports between them
"""
