"""What runs batches. A new executor is a new file here that passes the conformance suite."""

from splitter.executors.base import Cluster, Executor, Limits

__all__ = ["Cluster", "Executor", "Limits", "executor_class"]


def executor_class(name: str) -> type[Executor]:
    """The executor of that name; what it needs is imported only now."""
    if name == "ray":
        from splitter.executors.ray.executor import RayExecutor

        return RayExecutor
    from splitter.executors.local import LocalExecutor

    return LocalExecutor
