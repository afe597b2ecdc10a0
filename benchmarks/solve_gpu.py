"""The time of whole runs on a device: simulator, replay buffer and learner exchange tensors.

For example:

    python -m benchmarks.solve_gpu --quick             a short test
    python -m benchmarks.solve_gpu --device cuda       about two minutes

A row is one run of `her train TASK --on-device` with seed 0 and default options, except for those of the row.
The run ends after the first evaluation, of one episode in each environment, with a success rate of at least
0.95. Its time contains the evaluations, and on a GPU the capture of the graphs, but not the start of Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.replay_gpu import DEVICE_OPTION, device_name
from benchmarks.result_page import Benchmark, Grid, listing
from her_agents import Config, train

BENCHMARK = Benchmark("solve_gpu", "How long do runs on a device take?", __doc__)
SOLVED = 0.95

TASKS: dict[str, dict[str, Any]] = {
    "PointReach": {},
    "PointPush": {},
    "BitFlipping": {"env_kwargs": {"n_bits": 30}, "algo": "dqn"},
}
OPTIONS = {
    "cuda": {"num_envs": 1_024, "batch_size": 1_024, "updates_per_step": 32 / 1_024, "steps": 2_000_000},
    "cpu": {"num_envs": 256, "updates_per_step": 0.25, "steps": 300_000},
}
"""Options by the type of the device."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the results, and write the page."""
    options = BENCHMARK.parse(arguments, quick="one epoch of each task", device=DEVICE_OPTION)
    torch.set_num_threads(1)
    rows = []
    for task, special in TASKS.items():
        chosen = OPTIONS[torch.device(options.device).type] | special | {"on_device": True}
        if options.quick:
            chosen |= {
                "num_envs": 4,
                "steps": 400,
                "steps_per_epoch": 200,
                "updates_per_step": 0.01,
                "learning_starts": 100,
            }
        steps_per_epoch = chosen.get("steps_per_epoch", 50 * chosen["num_envs"])
        chosen |= {"steps_per_epoch": steps_per_epoch, "device": options.device}
        result = train(
            Config(f"her_envs/{task}-v0", **chosen),
            stop=lambda history: history[-1]["success_rate"] >= SOLVED,
        )
        last = result.history[-1]
        shown = f"{chosen['num_envs']:,} environments, {chosen['updates_per_step'] * chosen['num_envs']:.3g}"
        numbers = [f"{last[name]:,.0f}" for name in ("env_steps", "updates", "seconds")]
        rows.append([f"{task}, {shown} updates a step", *numbers, f"{last['success_rate']:.2f}"])
    grids = [Grid("Until a success rate of 0.95", ["run", "steps", "updates", "seconds", "success"], rows)]
    times = [f"{row[3]} s on {row[0].partition(',')[0]} (success rate {row[4]})" for row in rows]
    facts = {"device": device_name(options.device)}
    BENCHMARK.publish(options, f"One run each takes {listing(times)}.", grids, facts)


if __name__ == "__main__":
    main()
