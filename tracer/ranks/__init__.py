"""Several ranks measured at once: launched by torch's own elastic agent, or by whoever set RANK and WORLD_SIZE.

Each rank has a coordinator that never starts a GPU and runs every job in a fresh process of its fork server. Rank 0's
leads: it says which job is next, through a TCPStore, gathers what the others measured and keeps the one capture.
"""
