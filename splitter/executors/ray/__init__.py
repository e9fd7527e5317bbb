"""The executor for a Ray cluster.

executor        a task for each batch
cluster         a cluster joined, or a private one started
guard_process   between a Ray worker and the guard that it starts
code            the recipe's code, on its way to another machine
"""
