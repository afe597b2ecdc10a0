"""All broken specimens, each with the code of the rule that it breaks."""

from tests.support.specimens import (  # noqa: F401 - each module adds its specimens to FAULTS
    arms,
    broken_batches,
    broken_buffer_use,
    broken_episodes,
    broken_observations,
    broken_resets,
    broken_rewards,
    broken_spaces,
    broken_steps,
    broken_terminations,
    broken_values,
    broken_vectors,
)
from tests.support.specimens.reach import FAULTS

__all__ = ["FAULTS"]
