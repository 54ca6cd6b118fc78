"""What is computed from one trace and rests on no figure: steps, replays, gaps, launches, stacks."""
