"""Documents in words: what a person reads of each, as blocks."""
