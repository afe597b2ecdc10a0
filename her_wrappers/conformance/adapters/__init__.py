"""Adapters for the replay buffers of her-toolkit and of other libraries."""
