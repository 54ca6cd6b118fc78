"""Several ranks of one program side by side: what communication and waiting for one another mean in a step."""
