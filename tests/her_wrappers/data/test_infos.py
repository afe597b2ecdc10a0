"""`info_row`: the infos of one environment, taken from those of a vector environment."""

import numpy as np
import pytest

from her_wrappers.data.infos import info_row

TOTAL = np.array(7)


@pytest.mark.parametrize(
    ("infos", "row"),
    [
        ({"cost": np.array([1.0, 2.0])}, {"cost": 2.0}),
        ({"steps": 7, "log": "words"}, {"steps": 7, "log": "words"}),
        ({"cost": np.array([1.0, 2.0]), "_cost": np.array([True, False])}, {}),
        ({"cost": np.array([1.0, 2.0]), "_cost": np.array(["", "words"])}, {"cost": 2.0}),
        ({"part": {"cost": np.array([1, 2]), "_cost": np.array([True, True])}}, {"part": {"cost": 2}}),
        ({"final_info": {"cost": np.array([1, 2])}, "_odd": np.array([1, 2])}, {}),
        ({"total": TOTAL}, {"total": TOTAL}),
        (None, {}),
    ],
)
def test_the_info_of_the_second_of_two_environments(infos, row):
    found = info_row(infos, 1, 2)
    assert found == row
    assert [type(value) for value in found.values()] == [type(value) for value in row.values()]
