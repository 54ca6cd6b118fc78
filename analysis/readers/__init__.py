"""One file format each: bytes in, a Trace out."""
