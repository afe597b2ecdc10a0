"""Success of DQN in Stable-Baselines3's own performance test of HER: its HerReplayBuffer compared with ours.

For example:

    python -m benchmarks.sb3_success --quick            two seeds, a few steps
    python -m benchmarks.sb3_success --seeds 30         some minutes

The settings are those of `test_performance_her` in `tests/test_her.py` of Stable-Baselines3 2.9.2. This test
trains DQN on two environments `BitFlippingEnv(10)` for 1,500 steps with seed 0, and requires that more than
90 % of the last 50 training episodes reach the goal. Here, the success rate of these 50 episodes is measured
for many seeds. For each seed, the runs with the three buffers start with the same networks and environments.

Intervals are percentile bootstrap intervals of the mean over the seeds. Differences are computed per seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv

from benchmarks.result_page import Benchmark, Grid, count
from her_agents.results.comparison import estimate
from her_wrappers.integrations.sb3 import HerReplayBuffer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

QUESTION = "Does the buffer change success in Stable-Baselines3?"
BENCHMARK = Benchmark("sb3_success", QUESTION, __doc__, ("stable-baselines3",))
SB3 = "Stable-Baselines3"
KEEP, SUCCESS = 'her_wrappers, termination="keep"', 'her_wrappers, termination="success"'
BUFFERS: dict[str, tuple[type[sb3.HerReplayBuffer], dict[str, Any]]] = {
    SB3: (sb3.HerReplayBuffer, {}),
    KEEP: (HerReplayBuffer, {"termination": "keep"}),
    SUCCESS: (HerReplayBuffer, {"termination": "success"}),
}
N_BITS, N_ENVS, STEPS, PASSED = 10, 2, 1500, 0.9


def success_rate(name: str, seed: int, steps: int) -> float:
    """Train DQN with a buffer; return the share of the last 50 training episodes that reached the goal."""
    kind, options = BUFFERS[name]
    model = sb3.DQN(
        "MultiInputPolicy",
        make_vec_env(lambda: BitFlippingEnv(n_bits=N_BITS, continuous=False), N_ENVS),
        replay_buffer_class=kind,
        replay_buffer_kwargs={"n_sampled_goal": 5, "goal_selection_strategy": "future"} | options,
        learning_rate=2e-3,
        train_freq=1,
        gradient_steps=N_ENVS,
        learning_starts=20,
        exploration_final_eps=0.02,
        target_update_interval=100,
        seed=seed,
        batch_size=32,
        buffer_size=100_000,
        stats_window_size=50,
        device="cpu",
    )
    model.learn(steps)
    return float(np.mean(model.ep_success_buffer))


def success_grid(rates: Mapping[str, np.ndarray]) -> Grid:
    """Return the table of mean success rates; ``rates`` has the rates of all seeds by name of the buffer."""
    rows = []
    for name, values in rates.items():
        mean, low, high = estimate(np.mean, [values], np.random.default_rng(0))
        passed = f"{(values > PASSED).sum()} of {len(values)}"
        rows.append([name, f"{mean:.3f} ({low:.3f} to {high:.3f})", f"{values.min():.2f}", passed, ""])
        if name != SB3:
            mean, low, high = estimate(np.mean, [values - rates[SB3]], np.random.default_rng(0))
            rows[-1][-1] = f"{mean:+.3f} ({low:+.3f} to {high:+.3f})"
    header = ["buffer", "mean success rate", "lowest", "seeds above 0.9", f"difference from {SB3}"]
    return Grid("Success, with 95 % intervals", header, rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train with all buffers, print the results, and write the page."""
    options = BENCHMARK.parse(
        arguments,
        quick="two seeds of 40 steps",
        seeds={"type": count, "default": 30, "help": "number of seeds, from 0 [%(default)s]"},
    )
    torch.set_num_threads(1)
    seeds, steps = (2, 40) if options.quick else (options.seeds, STEPS)
    rates = {name: np.array([success_rate(name, seed, steps) for seed in range(seeds)]) for name in BUFFERS}
    means = {name: float(values.mean()) for name, values in rates.items()}
    answer = (
        f"In Stable-Baselines3's own test of HER, the mean success rate over {seeds} seeds is "
        f"{means[SB3]:.2f} with its buffer, "
    )
    answer += f'{means[KEEP]:.2f} with ours and `termination="keep"`, and {means[SUCCESS]:.2f} with '
    answer += '`termination="success"`.'
    facts = {"run": f"{seeds} seeds of {steps:,} steps"}
    BENCHMARK.publish(options, answer, [success_grid(rates)], facts)


if __name__ == "__main__":
    main()
