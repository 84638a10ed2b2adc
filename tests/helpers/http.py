"""Plain requests to servers and proxies of this machine."""

import httpx

HTTP = httpx.Client(verify=False, limits=httpx.Limits(max_keepalive_connections=0))
"""Opens a connection for each request. `httpx.get` also reads all certificates, for 0.1 s."""
