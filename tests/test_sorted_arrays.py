"""Where values are in arrays, beside a look at each."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from splitter.sorted_arrays import index_in_sorted, index_of

# the largest, too, and few enough to occur twice, or on both sides
NUMBERS = st.lists(st.sampled_from([0, 1, 2, 3, 2**63, 2**64 - 1]))


@given(NUMBERS, NUMBERS)
def test_the_first_of_several_is_found_or_none(there: list[int], values: list[int]):
    for found, among in ((index_of, there), (index_in_sorted, sorted(there))):
        expected = [among.index(value) if value in among else -1 for value in values]
        assert found(np.array(among, "u8"), np.array(values, "u8")).tolist() == expected
