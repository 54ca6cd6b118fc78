"""The page of a report: its parts, and what an event makes of them."""
