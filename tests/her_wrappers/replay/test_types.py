"""Types that type checkers and editors see; mypy checks this file, and pytest runs it."""

from typing import assert_type, get_args

import numpy as np
import torch

from her_wrappers.replay.goal_selection import STRATEGIES, StrategyName
from tests.support.counting import counting_buffer, counting_episode


def test_a_batch_has_arrays_and_to_torch_returns_tensors() -> None:
    buffer = counting_buffer()
    buffer.add_episode(counting_episode(0, 5))
    batch = buffer.sample(8)
    assert_type(batch.rewards, np.ndarray)
    assert isinstance(batch.rewards, np.ndarray)
    tensors = batch.to_torch()
    assert_type(tensors.rewards, torch.Tensor)
    assert isinstance(tensors.rewards, torch.Tensor)


def test_the_type_of_names_has_all_strategies() -> None:
    assert set(get_args(StrategyName)) == set(STRATEGIES)
