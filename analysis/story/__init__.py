"""What a report is told in: blocks, and tables that fit."""
