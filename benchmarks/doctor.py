"""Time and memory of `her doctor` on an archive of 1,000,000 transitions with the sizes of FetchPush.

Run with ``python -m benchmarks.doctor``. The promise is a verdict within 20 seconds and 1 GB.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from her_wrappers import EpisodeArchive
from her_wrappers.recording.episodes import Episodes

EPISODES, STEPS, BLOCK = 20_000, 50, 1000
"""Number of episodes, steps of each, and episodes that are generated at once."""


def write_archive(folder: Path, *, episodes: int = EPISODES) -> None:
    """Write episodes of a random walk with the shapes and dtypes of FetchPush."""
    rng = np.random.default_rng(0)
    states, steps = BLOCK * (STEPS + 1), BLOCK * STEPS
    with EpisodeArchive(folder) as archive:
        for _ in range(episodes // BLOCK):
            walk = 0.01 * rng.normal(size=(BLOCK, STEPS + 1, 3)).cumsum(axis=1)
            goals = rng.uniform(-0.15, 0.15, (BLOCK, 1, 3))
            success = np.linalg.norm(walk - goals, axis=-1)[:, 1:].reshape(-1) < 0.05
            archive.add_episodes(
                Episodes(
                    observations={
                        "observation": rng.normal(size=(states, 25)),
                        "achieved_goal": walk.reshape(states, 3),
                        "desired_goal": np.repeat(goals, STEPS + 1, axis=1).reshape(states, 3),
                    },
                    actions=rng.uniform(-1, 1, (steps, 4)).astype(np.float32),
                    rewards=success - 1.0,
                    lengths=np.full(BLOCK, STEPS),
                    terminated=np.zeros(BLOCK, np.bool_),
                    truncated=np.ones(BLOCK, np.bool_),
                    infos={"is_success": success},
                )
            )


def main() -> None:
    """Print wall-clock time, processor time and memory of the command."""
    with tempfile.TemporaryDirectory() as folder:
        write_archive(Path(folder) / "archive")
        begin = time.perf_counter()
        command = [sys.executable, "-c", "from her_wrappers.cli import app; app()", "doctor"]
        done = subprocess.run([*command, str(Path(folder) / "archive")], check=False, capture_output=True)
        seconds = time.perf_counter() - begin
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(done.stdout.decode().splitlines()[0])
    print(f"{seconds:.1f} s, {usage.ru_utime + usage.ru_stime:.1f} processor seconds, ", end="")
    print(f"{usage.ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
