"""Adapters for our buffer and for those of other libraries."""
