"""Install the servers that a test run needs from jars, into the cache.

`python -m tools.servers` installs those of a usual run, and `--all` every server.
"""

import argparse

from tools.servers.jars import install
from tools.servers.versions import ONLY_WITH_ALL, SERVERS


def main() -> None:
    """Install the servers, and print the folder of each."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.servers",
        description="Install the servers that a test run needs from jars, into the cache.",
    )
    parser.add_argument("--all", action="store_true", help="include the servers of pytest --all")
    options = parser.parse_args()
    for fixture, server in SERVERS.items():
        if options.all or fixture.removesuffix("_url") not in ONLY_WITH_ALL:
            installation = install(server.product, server.version, server.secured)
            print(f"{server}: {installation.folder}")


if __name__ == "__main__":
    main()
