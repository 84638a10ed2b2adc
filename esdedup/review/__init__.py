"""A local web page over an index: search, groups, judgements and what to do with duplicates.

`app` has the routes and the server, which listens on this machine only. `security` admits only the
holder of the token. `pages` is what all pages share; each page is a module of its own.
"""
