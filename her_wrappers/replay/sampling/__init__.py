"""Sampling: which steps make up the next batches, and the batches."""
