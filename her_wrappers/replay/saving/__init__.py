"""Saving: buffers in files."""
