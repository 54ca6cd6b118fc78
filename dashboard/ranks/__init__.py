"""Several ranks in one report: which there are, their steps as a heat map, and two of them side by side."""
