"""esdedup proxy: tokens for the documents of any client."""

from esdedup import admin
from esdedup.cli.setting_names import with_options


def proxy_command(settings: admin.ProxySettings) -> None:
    """Pass requests on, and add tokens to their documents.

    Example: esdedup proxy --upstream http://localhost:9200

    Documents of an index that has esdedup's fields get their tokens, whatever client sends them.
    Documents that can't be read are refused, and everything else passes unchanged. The clients' own
    credentials are used. SIGHUP reads the certificates again. Environment variables set options,
    such as ESDEDUP_PROXY_MAX_MEMORY.
    """
    admin.serve_proxy(settings, with_options)
