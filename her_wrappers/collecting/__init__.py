"""Collecting: episodes from workers in this process, in other processes, or in a Ray cluster."""

from her_wrappers.collecting.collector import Collector, CollectorError, Round

__all__ = ["Collector", "CollectorError", "Round"]
