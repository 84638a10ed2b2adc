"""Small programs that send documents by the bulk helpers of the official clients.

Each takes an address, an index, and a file of documents as JSON lines. It reads the file, prints a
line, waits for a line of input, sends the documents with its helper's defaults, prints how many
were written, as JSON, and waits again: while it waits, its processor time can be read.
"""
