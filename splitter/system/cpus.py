"""The CPUs that this process may use, and those that are its share among other workers."""

import os

_own = 1


def take_cpus(count: int) -> None:
    """Set how many CPUs this process has for itself, while other workers use the rest."""
    global _own  # noqa: PLW0603 - there is one value per process
    _own = count


def own_cpus() -> int:
    """Return how many CPUs this process has for itself: one, unless `take_cpus` has changed it."""
    return _own


def usable_cpus() -> int:
    """Return how many CPUs this process may use, by its affinity and its container's quota."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        return count
    return count if quota == "max" else max(1, min(count, -(-int(quota) // int(period))))
