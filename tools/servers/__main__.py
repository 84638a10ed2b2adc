"""Install the servers that a test run needs from jars, into the cache.

python -m tools.servers          # those of a usual run
python -m tools.servers --all    # every server
"""

import argparse

from tools.servers.jars import install
from tools.servers.versions import ONLY_WITH_ALL, SERVERS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.servers", description=__doc__)
    parser.add_argument("--all", action="store_true", help="every server")
    options = parser.parse_args()
    for fixture, server in SERVERS.items():
        if options.all or fixture.removesuffix("_url") not in ONLY_WITH_ALL:
            installation = install(server.product, server.version, server.secured)
            print(f"{server}: {installation.folder}")


if __name__ == "__main__":
    main()
