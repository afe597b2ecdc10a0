"""Devices: storage and windows as tensors on a torch device; all here imports torch."""
