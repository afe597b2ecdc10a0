"""Tests of this folder need RLlib, and are not collected without it. Ray uses the loopback address only."""

import importlib.util
import logging

import pytest

from tests.support import ray_cluster  # noqa: F401 - sets environment variables of Ray

NEEDED = ("ray", "torch", "tree", "lz4", "pyarrow")

collect_ignore_glob = [] if all(map(importlib.util.find_spec, NEEDED)) else ["*.py"]


@pytest.fixture(scope="session", autouse=True)
def local_ray():
    """Ray in this process, also if another Ray runs on this machine."""
    import ray  # noqa: PLC0415 - missing without RLlib

    ray.init(
        "local",
        num_cpus=8,  # of workers; the machine may have fewer
        object_store_memory=300_000_000,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        logging_level="error",
        log_to_driver=False,
    )
    logging.getLogger("ray").setLevel(logging.ERROR)
    yield
    ray.shutdown()
