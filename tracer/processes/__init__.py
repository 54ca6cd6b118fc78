"""Fresh processes that measure, one or one per rank, and the run that asks them."""
