"""Hundreds of rank files: a row for each, and what stands out among them.

Read one at a time by each worker, so memory goes with the workers and not with the ranks:
``files`` and ``storage`` find and fetch them, ``figures`` and ``reading`` make a row of one, ``pool`` and
``dask_workers`` do so for many at a time, ``kept_rows`` keeps what is finished, ``ranks`` makes the document.
"""
