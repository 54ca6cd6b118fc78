"""Runs a decode step on the GPU and keeps what it saw in a capture; the only room that imports torch."""
