"""A folder that a job owns, and the documents that it stores there."""
