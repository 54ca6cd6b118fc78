"""What a recording can't be: a check for each rule, with the one event that refutes it and what it leaves unknown."""
