"""Stands for torch on nodes where no recipe uses it: importing that takes a worker longer than all else."""


def set_num_threads(count: int) -> None:
    """What a guard says before its first batch."""
