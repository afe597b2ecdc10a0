"""Results of runs: evaluation reports, comparisons of runs, exported policies."""
