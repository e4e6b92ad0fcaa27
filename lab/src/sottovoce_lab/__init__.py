"""The laboratory of sottovoce: experiments, baselines, an audit of the client, and benchmarks.

All figures of the documentation were made with it. `COMMANDS` adds its commands to `sottovoce`: the
module of each command, its line of help, and the package that provides it.
"""

_PACKAGE_NAME = "sottovoce-lab"

COMMANDS = {
    "replay": (
        "sottovoce_lab.cli.replay",
        "Simulate a service that learns without end, with the interactions of a data set by date.",
        _PACKAGE_NAME,
    ),
    "audit": (
        "sottovoce_lab.cli.audit",
        "Measure the true epsilon of the client from its reports, and attack these reports.",
        _PACKAGE_NAME,
    ),
    "bench": (
        "sottovoce_lab.cli.bench",
        "Compare the speed of the engines, and of an ALS iteration of the package implicit.",
        _PACKAGE_NAME,
    ),
    "prepare": (
        "sottovoce_lab.cli.prepare",
        "Build a data set of the report (lab/docs/report.md) from the files of its publisher.",
        _PACKAGE_NAME,
    ),
    "paper": (
        "sottovoce_lab.cli.paper",
        "Run the experiments of the paper again, and compare their results with the paper's.",
        _PACKAGE_NAME,
    ),
}
