"""Measurements against peers; not part of the packages."""
