"""Read files, streams and tables into records, and records into documents."""
