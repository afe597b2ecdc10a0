"""All broken specimens, each with the code of the rule that it breaks."""

from tests.support.specimens import (
    broken_batches,
    broken_episodes,
    broken_rewards,
    broken_spaces,
    broken_vectors,
)

FAULTS = [
    *broken_spaces.FAULTS,
    *broken_rewards.FAULTS,
    *broken_batches.FAULTS,
    *broken_episodes.FAULTS,
    *broken_vectors.FAULTS,
]
