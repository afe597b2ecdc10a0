"""The benchmark of environments: it measures all environments that its requirements compare."""

import numpy as np

from benchmarks import env_speed
from benchmarks.timing import Timing, measure


def test_measures_every_environment_of_the_requirements():
    workloads = env_speed.workloads()
    speeds = {name: 1 / costs for name, costs in measure(workloads, Timing(turns=2, seconds=0.0)).items()}
    assert all(np.isfinite(values).all() and (values > 0).all() for values in speeds.values())
    assert len(env_speed.requirements(speeds)) == len(env_speed.RATIOS)
    assert len(env_speed.speed_grid(speeds).rows) == len(speeds) == len(workloads)
