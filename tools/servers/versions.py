"""The servers that tests run on, by product and version."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Server:
    """A kind of server that tests may ask for.

    product: elasticsearch or opensearch.
    version: of the product.
    variable: the environment variable with the address of one that runs.
    secured: whether it has TLS, users and roles.
    """

    product: str
    version: str
    variable: str
    secured: bool = False

    def __str__(self) -> str:
        return f"{'secured ' if self.secured else ''}{self.product} {self.version}"


ELASTICSEARCH = Server("elasticsearch", "9.5.3", "ESDEDUP_TEST_ELASTICSEARCH_URL")
ELASTICSEARCH8 = Server("elasticsearch", "8.19.21", "ESDEDUP_TEST_ELASTICSEARCH8_URL")
OPENSEARCH = Server("opensearch", "3.3.2", "ESDEDUP_TEST_OPENSEARCH_URL")
SECURED_ELASTICSEARCH = Server(
    "elasticsearch", "9.5.3", "ESDEDUP_TEST_SECURED_ELASTICSEARCH_URL", secured=True
)
# The security plugin is not published for every version.
SECURED_OPENSEARCH = Server(
    "opensearch", "3.4.0", "ESDEDUP_TEST_SECURED_OPENSEARCH_URL", secured=True
)

# By the fixtures that hand out their addresses.
SERVERS = {
    "elasticsearch_url": ELASTICSEARCH,
    "elasticsearch8_url": ELASTICSEARCH8,
    "opensearch_url": OPENSEARCH,
    "secured_elasticsearch_url": SECURED_ELASTICSEARCH,
    "secured_opensearch_url": SECURED_OPENSEARCH,
}

# A usual run tests one major version, and one of the secured products.
ONLY_WITH_ALL = {"elasticsearch8", "secured_opensearch"}
