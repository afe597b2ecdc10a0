"""`info_row`: the infos of one environment, taken from those of a vector environment."""

import numpy as np
import pytest

from her_wrappers.data.infos import info_row


class Gettable:
    """An object with ``__getitem__`` and without ``__len__``."""

    def __getitem__(self, key):
        raise AssertionError("nobody knows what it would give")


GETTABLE, TOTAL = Gettable(), np.array(7)


@pytest.mark.parametrize(
    ("infos", "row"),
    [
        ({"cost": np.array([1.0, 2.0])}, {"cost": 2.0}),
        ({"name": ["a", "b"]}, {"name": "b"}),
        ({"steps": 7, "log": "words"}, {"steps": 7, "log": "words"}),
        ({"cost": np.array([1.0, 2.0]), "_cost": np.array([True, False])}, {}),
        ({"cost": np.array([1.0, 2.0]), "_cost": np.array(["", "words"])}, {"cost": 2.0}),
        ({"part": {"cost": np.array([1, 2]), "_cost": np.array([True, True])}}, {"part": {"cost": 2}}),
        ({"final_info": {"cost": np.array([1, 2])}, "_odd": np.array([1, 2])}, {}),
        ({"names": {"a", "b"}}, {"names": {"a", "b"}}),
        ({"handle": GETTABLE}, {"handle": GETTABLE}),
        ({"total": TOTAL}, {"total": TOTAL}),
        (None, {}),
    ],
)
def test_the_info_of_the_second_of_two_environments(infos, row):
    found = info_row(infos, 1, 2)
    assert found == row
    assert [type(value) for value in found.values()] == [type(value) for value in row.values()]
