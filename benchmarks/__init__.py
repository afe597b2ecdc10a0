"""Measurements of what the parts cost, against peers and against the machine."""
