"""One query: candidates by their tokens, each verified exactly."""
