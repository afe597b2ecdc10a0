"""Collecting: episodes from many processes or a Ray cluster, bit-identical wherever they are played."""

from her_wrappers.collecting.collector import Collector, CollectorError, Round

__all__ = ["Collector", "CollectorError", "Round"]
