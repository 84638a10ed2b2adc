"""Programs that run in the environments of the peers, or beside them as one of them."""
