"""What every other room rests on: the Trace, the capture on disk, the documents' types, units, errors and words."""
