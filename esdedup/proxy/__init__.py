"""A reverse proxy that adds the token fields to documents on their way to the servers.

With one changed address, the documents of any client get near-duplicate fields. Everything but
documents for an index with a scheme passes unchanged.
"""
