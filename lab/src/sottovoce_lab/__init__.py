"""What every figure of the documentation was made with: experiments, baselines, audit, benchmarks.

`COMMANDS` brings them under `sottovoce`: the module of each command, its help line, and what pip
installs for it.
"""

_NEEDS = "sottovoce-lab"

COMMANDS = {
    "replay": (
        "sottovoce_lab.cli.replay",
        "Replay a data set in the order of its days, as a service that learns without end.",
        _NEEDS,
    ),
    "audit": (
        "sottovoce_lab.cli.audit",
        "Measure the epsilon of the shipped client from outside, then attack people's reports.",
        _NEEDS,
    ),
    "bench": (
        "sottovoce_lab.cli.bench",
        "Time one epoch of the same people on every engine, and one ALS iteration of implicit.",
        _NEEDS,
    ),
    "prepare": (
        "sottovoce_lab.cli.prepare",
        "Build a data set of the report from the files of its publisher.",
        _NEEDS,
    ),
    "paper": (
        "sottovoce_lab.cli.paper",
        "Run the paper's figures and tables again, with its numbers next to ours.",
        _NEEDS,
    ),
}
