"""Features that Stable-Baselines3 has since version 2.7, while older versions are supported too."""

import pytest
from stable_baselines3.common.type_aliases import DictReplayBufferSamples

HAS_N_STEPS = "discounts" in DictReplayBufferSamples._fields

needs_n_steps = pytest.mark.skipif(
    not HAS_N_STEPS, reason="this version of Stable-Baselines3 has no n-step returns"
)
