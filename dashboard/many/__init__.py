"""Hundreds of ranks: a page of the table of ranks, and a page of its own for each rank or pair that is looked into."""
