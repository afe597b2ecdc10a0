"""Options of agents: their ranges, and names that an algorithm does not have."""

import pytest

from her_agents.algorithms.options import agent_options

BAD_OPTIONS = [
    ("dqn", {"hidden": 3}, ValueError, r"'hidden' must be a list of layer sizes, such as \[64, 64\], got 3"),
    ("td3", {"policy_delay": 0}, ValueError, "policy_delay must be .* >= 1, got 0"),
    ("tqc", {"top_quantiles_to_drop_per_net": 25}, ValueError, "must be below n_quantiles=25, got 25"),
    ("sac", {"layer_norm": 1}, TypeError, "layer_norm must be .*, got 1"),
    ("ddpg", {"tau": 0}, ValueError, r"tau must be a number in \(0, 1\], got 0"),
    ("dqn", {"layers": 3}, ValueError, "unknown option 'layers' of dqn; choose from 'bc_weight'"),
    ("ppo", {}, ValueError, "unknown algo 'ppo'; choose from 'dqn', 'ddpg', 'td3', 'sac', 'tqc', 'iql'"),
]


@pytest.mark.parametrize(("algo", "options", "error", "message"), BAD_OPTIONS)
def test_invalid_options_raise_an_error(algo, options, error, message):
    with pytest.raises(error, match=message):
        agent_options(algo, options)
