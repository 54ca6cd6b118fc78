"""Charts, and the model of a step to play with."""
