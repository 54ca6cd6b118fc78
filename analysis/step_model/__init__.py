"""The closed form of a step: what bounds it, and what a graph would take."""
