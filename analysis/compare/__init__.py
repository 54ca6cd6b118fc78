"""What changed from one report to another."""
