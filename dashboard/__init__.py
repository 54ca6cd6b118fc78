"""The dashboard: timelines side by side, charts, tables and the model to play with, in a browser or in one file."""
