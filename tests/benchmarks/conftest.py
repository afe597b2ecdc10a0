"""Benchmarks want NumPy 2; `benchmarks/requirements-replay.txt` has what they are measured with."""

import numpy as np

if np.lib.NumpyVersion(np.__version__) < "2.0.0":
    collect_ignore_glob = ["test_*.py"]
