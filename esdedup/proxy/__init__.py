"""A reverse proxy that adds the token fields to documents on their way to the servers.

Any client that writes documents gets near-duplicate fields by one changed address. What is not a
document for an index with a scheme passes as it is.
"""
