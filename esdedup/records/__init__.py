"""Read text files and tables into records, and records into documents."""
