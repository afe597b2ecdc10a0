"""The rules, in one file for each topic; importing this package registers them all."""

from her_wrappers.checker.rules import (  # noqa: F401 - each module registers its rules
    aliasing,
    buffer_use,
    determinism,
    infos,
    relabeling,
    reward_function,
    spaces,
    step_reward,
    success,
    termination,
    vector,
)
