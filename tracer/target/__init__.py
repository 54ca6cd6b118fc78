"""What the user points at: found, built, watched, and described."""
