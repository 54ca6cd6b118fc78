"""Hundreds of rank files: a row for each, and what stands out among them.

Read one at a time by each worker, so memory goes with the workers and not with the ranks: ``one_file`` makes a row of
one, ``pool`` does so for many at a time, on this machine or by Dask, ``across`` compares the rows' collectives,
``outliers`` finds what stands out, ``ranks`` makes the document and keeps what is finished.
"""
