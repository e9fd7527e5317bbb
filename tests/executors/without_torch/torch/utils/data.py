"""What a ProcessorDataset is made from."""

from typing import Generic, TypeVar

Item = TypeVar("Item")


class Dataset(Generic[Item]):
    """Rows that can be asked for by their numbers."""
