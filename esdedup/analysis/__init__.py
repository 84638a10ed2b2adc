"""What an index holds, and which parameters to choose."""
