"""What all tests of the examples share."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True, name="one_thread")
def use_one_thread():
    """More threads only wait for each other on networks so small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
