"""Internals, `devices/tensor_records.py`: copies of records."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

from her_wrappers.replay.devices.tensor_records import TensorRecords

pytestmark = pytest.mark.arrays_only("devices are given in each test")


@pytest.mark.parametrize("made", [copy.deepcopy, lambda records: pickle.loads(pickle.dumps(records))])
def test_a_copy_of_records_has_one_memory_for_rows_and_fields(made):
    records = TensorRecords.of(np.ones(3, [("value", np.float32)]), torch.device("cpu"))
    assert records["value"].tolist() == [1, 1, 1]
    twin = made(records)
    twin["value"] = torch.tensor([2.0, 3, 4])
    assert twin.to_numpy()["value"].tolist() == [2, 3, 4]
    assert records.to_numpy()["value"].tolist() == [1, 1, 1]
