"""What a person names (a path, a URL, a pattern, a folder, a .zip) becomes traces: found, fetched, read, kept."""
