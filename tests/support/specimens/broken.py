"""All broken specimens, each with the code of the rule that it breaks."""

from tests.support.specimens import (  # noqa: F401 - each module adds its specimens to FAULTS
    arms,
    broken_batches,
    broken_episodes,
    broken_rewards,
    broken_seeds,
    broken_spaces,
    broken_success,
    broken_vectors,
)
from tests.support.specimens.reach import FAULTS

__all__ = ["FAULTS"]
