"""All broken specimens, each with the code of the rule that it breaks."""

from tests.support.specimens import (
    broken_batches,
    broken_buffer_use,
    broken_episodes,
    broken_resets,
    broken_rewards,
    broken_spaces,
    broken_vectors,
)

FAULTS = [
    *broken_spaces.FAULTS,
    *broken_rewards.FAULTS,
    *broken_batches.FAULTS,
    *broken_buffer_use.FAULTS,
    *broken_episodes.FAULTS,
    *broken_resets.FAULTS,
    *broken_vectors.FAULTS,
]
