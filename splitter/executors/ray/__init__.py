"""The executor for a Ray cluster.

executor        a task for each batch
cluster         a cluster joined, or a private one started
guard_process   starts a guard for a Ray worker, and passes batches and reports between them
"""
