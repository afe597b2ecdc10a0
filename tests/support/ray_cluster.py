"""Ray on this machine, reachable by the loopback address only, for tests that start and stop it."""

import contextlib
import os

LOOPBACK = "127.0.0.2"  # Ray replaces 127.0.0.1 by the address of the machine in the network

# Normal priority, so that Ray's workers get processor time on a busy machine, and no usage reports.
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


def connect(cluster):
    """Connect this process to a cluster."""
    import ray  # noqa: PLC0415 - an optional dependency

    options = {"logging_level": "error", "log_to_driver": False}
    ray.init(address=cluster.address, _node_ip_address=LOOPBACK, **options)


@contextlib.contextmanager
def three_nodes(num_cpus=2):
    """Start three nodes, and connect this process to the first."""
    import ray  # noqa: PLC0415 - an optional dependency
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - an optional dependency

    ray.shutdown()
    head = {"num_cpus": num_cpus, "include_dashboard": False, "node_ip_address": LOOPBACK}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=num_cpus, node_ip_address=LOOPBACK)
        connect(cluster)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
