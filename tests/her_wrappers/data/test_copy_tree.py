"""copy_tree: copies share no memory with the original or within themselves."""

import numpy as np

from her_wrappers.data.trees import copy_tree

ROW = np.arange(3.0)


def test_a_copy_shares_no_memory_with_the_original():
    original = {"a": ROW, "b": (ROW[1:], [ROW.copy()]), "c": {"d": ROW}}
    copied = copy_tree(original)
    parts = [copied["a"], *copied["b"][:1], *copied["b"][1], copied["c"]["d"]]
    assert [part.tolist() for part in parts] == [[0, 1, 2], [1, 2], [0, 1, 2], [0, 1, 2]]
    assert not any(np.shares_memory(part, ROW) for part in parts)


def test_keys_that_hold_one_array_get_an_array_each():
    copied = copy_tree({"observation": ROW, "achieved_goal": ROW})
    assert not np.shares_memory(copied["observation"], copied["achieved_goal"])


def test_arrays_of_objects_and_objects_are_copied_deeply():
    inner = [1]
    boxed = np.array([None], dtype=object)
    boxed[0] = inner
    copied = copy_tree({"array": boxed, "set": {1, 2}, "none": None, "number": np.float32(2)})
    inner.append(2)
    assert copied["array"][0] == [1]
    assert (copied["set"], copied["none"], copied["number"]) == ({1, 2}, None, 2)
