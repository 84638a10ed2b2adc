"""Starts the node of a stand-in image, with the variables that the real image takes.

Runs inside the image only (tools/servers/images.py), beside the file that describes the node.
"""

import json
import os
from pathlib import Path

NODE = Path(__file__).parent


def main() -> None:
    node = json.loads((NODE / "node.json").read_text("utf-8"))
    home = Path(node["home"])
    # A variable with a dot in its name is a setting. Settings of modules that we lack are dropped,
    # as a node refuses to start with them.
    given = {name: value for name, value in os.environ.items() if "." in name}
    known = {n: v for n, v in given.items() if not n.startswith(tuple(node["unknown_settings"]))}
    # JSON is YAML, so every value reads back as it is.
    lines = [f"{n}: {json.dumps(v)}\n" for n, v in {**node["settings"], **known}.items()]
    (home / "config" / node["settings_file"]).write_text("".join(lines), encoding="utf-8")
    options = os.environ.get(node["options_variable"], "").split()
    # The launcher ends when its standard input does. The node holds the other end itself.
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    os.set_inheritable(writing, True)
    os.chdir(home)
    os.execv(node["java"], [node["java"], *options, *node["arguments"]])


main()
