"""esdedup proxy: tokens for the documents of any client."""

from __future__ import annotations

from typing import Annotated

import typer

from esdedup.cli.options import CaCerts
from esdedup.cli.output import message
from esdedup.exceptions import MissingExtra

UpstreamUrl = Annotated[
    str,
    typer.Option(
        "--upstream",
        envvar="ESDEDUP_UPSTREAM",
        show_default=False,
        help="Elasticsearch or OpenSearch, http(s)://host:port.",
    ),
]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")]
Seconds = Annotated[
    float, typer.Option("--timeout", min=0.1, help="Seconds that the upstream may stay silent.")
]


def proxy(
    upstream: UpstreamUrl,
    host: Host = "127.0.0.1",
    port: Port = 9280,
    ca_certs: CaCerts = None,
    timeout: Seconds = 3600.0,
) -> None:
    """Pass requests on, and add tokens to their documents.

    Example: esdedup proxy --upstream http://localhost:9200

    Documents of an index that has esdedup's fields get their tokens, whatever client sends them.
    Everything else passes unchanged. The clients' own credentials are used.
    """
    try:
        import uvicorn

        from esdedup.proxy.app import Service
        from esdedup.proxy.upstream import Upstream
    except ImportError as error:
        raise MissingExtra("the proxy needs more: pip install 'esdedup[proxy]'") from error
    service = Service(Upstream(upstream, ca_certs=ca_certs, timeout=timeout))
    message(f"Listening on http://{host}:{port}, passing to {upstream}")
    uvicorn.run(
        service,
        host=host,
        port=port,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        # Clients keep connections for long, as the servers never close them.
        timeout_keep_alive=3600,
        timeout_graceful_shutdown=10,
    )
