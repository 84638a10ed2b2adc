"""Documents in: files, tokens, and near-duplicates as they come."""
