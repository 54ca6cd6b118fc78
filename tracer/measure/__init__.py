"""What happens inside a process that measures: warm up, time, record, compare outputs."""
