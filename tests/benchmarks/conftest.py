"""Skip the tests of benchmarks without NumPy 2, which `benchmarks/requirements-replay.txt` installs."""

import numpy as np

if np.lib.NumpyVersion(np.__version__) < "2.0.0":
    collect_ignore_glob = ["test_*.py"]
