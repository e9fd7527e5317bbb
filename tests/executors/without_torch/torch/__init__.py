"""Stands for torch on nodes where no recipe uses it: to import that takes a worker longer than all else it does."""


def set_num_threads(count: int) -> None:
    """What a guard says before its first batch."""
