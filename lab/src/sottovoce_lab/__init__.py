"""The laboratory of sottovoce: experiments, baselines, an audit of the client, and benchmarks.

All figures of the documentation were made with it. `COMMANDS` adds its commands to `sottovoce`: the
module of each command, its line of help, and the package that provides it.
"""

_PACKAGE_NAME = "sottovoce-lab"

COMMANDS = {
    "replay": (
        "sottovoce_lab.cli.replay",
        "Replay a data set in the order of its days, as a service that learns without end.",
        _PACKAGE_NAME,
    ),
    "audit": (
        "sottovoce_lab.cli.audit",
        "Measure the epsilon of the shipped client from outside, then attack people's reports.",
        _PACKAGE_NAME,
    ),
    "bench": (
        "sottovoce_lab.cli.bench",
        "Time one epoch of the same people on every engine, and one ALS iteration of implicit.",
        _PACKAGE_NAME,
    ),
    "prepare": (
        "sottovoce_lab.cli.prepare",
        "Build a data set of the report from the files of its publisher.",
        _PACKAGE_NAME,
    ),
    "paper": (
        "sottovoce_lab.cli.paper",
        "Run the paper's figures and tables again, with its numbers next to ours.",
        _PACKAGE_NAME,
    ),
}
