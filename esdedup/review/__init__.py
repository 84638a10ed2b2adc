"""A local web page over an index: search, groups, judgements and what to do with duplicates.

`server` listens on this machine only, `security` lets in only who has the token, and `pages` holds
what all pages share. Each page is a module of its own.
"""
