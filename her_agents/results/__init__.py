"""What came out: evaluation reports, comparisons of runs, exported policies."""
