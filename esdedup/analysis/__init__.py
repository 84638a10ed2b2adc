"""Reports on an index, and helps to choose its parameters."""
