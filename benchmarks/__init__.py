"""Benchmarks that compare the packages with other libraries; not installed with the packages."""
