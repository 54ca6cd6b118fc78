"""What is computed from the traces of several ranks: the same collectives, who waits, how far clocks are apart."""
