"""A report as a native Perfetto trace."""
