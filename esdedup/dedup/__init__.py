"""The whole index: pairs, groups, and duplicates taken out and put back."""
