"""esdedup proxy: tokens for the documents of any client."""

from esdedup.cli.setting_names import with_options
from esdedup.exceptions import MissingExtra
from esdedup.proxy.settings import Settings


def proxy_command(settings: Settings) -> None:
    """Pass requests on, and add tokens to their documents.

    Example: esdedup proxy --upstream http://localhost:9200

    Documents of an index that has esdedup's fields get their tokens, whatever client sends them.
    Documents that can't be read are refused, and everything else passes unchanged. The clients' own
    credentials are used. SIGHUP reads the certificates again. Environment variables set options,
    such as ESDEDUP_PROXY_MAX_MEMORY.
    """
    try:
        from esdedup.proxy.server import serve
    except ImportError as error:
        raise MissingExtra("the proxy needs more: pip install 'esdedup[proxy]'") from error
    serve(settings, with_options)
