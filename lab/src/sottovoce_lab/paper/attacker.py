"""The attacker again: how well a person is guessed at each preset, and what proofs allow.

Not in the paper. `sottovoce_lab.audit.attack` says what the attacker knows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, get_args

from scipy import special

from sottovoce.privacy import central_epsilon
from sottovoce.privacy.events import DEFAULT_DELTA
from sottovoce.training import Budget, Settings, list_presets, plan_training
from sottovoce_lab.audit import AttackPlan, run_attack
from sottovoce_lab.audit.trials import Question
from sottovoce_lab.paper.cells import Cell, Size
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.scale import Family, drawn_with, scaled
from sottovoce_lab.paper.tables import COLOURS, NOTHING, Experiment, Table, budget, record, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure


USERS = 5_000
TRIALS, CROWDS = 2_000, 10
BY_TURNS = 50.0
"""A local budget, so that people take turns: among so few, no preset makes them."""
QUESTIONS: tuple[Question, ...] = get_args(Question)
GUESSES = {"linked": COLOURS["paper"], "unlinked": COLOURS["loudest"]}
OWN = ("question", "trials", "crowds")
"""Parameters of a cell beside the settings of the training that is attacked."""
DELTAS = (DEFAULT_DELTA, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.4)
"""The bound is the least of theirs: each holds."""
ERRORS = 4.9
"""Standard errors beyond a bound that count: of a normal draw, a chance of 5e-7."""
WHAT = (
    "AUC: how often the attacker ranks a true world above a false one; 0.5 is a guess. "
    "Interaction: did this person touch one item? History: which of two whole histories is theirs? "
    "The attacker knows everything else, every history and every epoch's model. Linked, they see "
    "which reports are the victim's; unlinked, all reports of an epoch in no order. In both cases "
    "they are told in which epochs the victim takes part."
)
BOUNDS = (
    "At most: 1 - (1 - delta)^2 / (1 + e^eps); linked of the local budget with delta 0, unlinked "
    "the least over several deltas of what the accountant says. The Gaussian limit is of many "
    "people: no proof for few."
)


@dataclass(frozen=True)
class Row:
    label: str
    settings: Settings
    question: Question


def attack(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Both AUCs after the whole training, what the proofs allow, and the budgets."""
    named, data = cell.named, context.data
    given = {name: value for name, value in named.items() if name not in OWN}
    settings = Settings.from_dict({**given, "seed": cell.seed})
    plan = AttackPlan(
        trials=named["trials"],
        crowds=named["crowds"],
        question=named["question"],
        points=((settings.reports, settings.epochs),),
        seed=cell.seed,
        threads=context.threads,
    )
    (point,) = run_attack(data.histories, settings, plan).points
    event, crowd = settings.event(data.n_items), max(settings.estimate_crowd(data.n_users), 1)
    central = {delta: central_epsilon(event, crowd, delta) for delta in DELTAS}
    return {
        "final": {
            "linked": point.linked.value,
            "unlinked": point.unlinked.value,
            "linked error": point.linked.error,
            "unlinked error": point.unlinked.error,
        },
        "bounds": {
            "linked": largest_area(event.pure),
            "unlinked": min(largest_area(epsilon, delta) for delta, epsilon in central.items()),
            "gaussian": point.bound,
        },
        "budget": {"local": event.pure, "central": central[DEFAULT_DELTA]},
    }


def largest_area(epsilon: float, delta: float = 0.0) -> float:
    """The AUC that no guess exceeds between two worlds that are (epsilon, delta) apart.

    TPR is at most `e^eps FPR + delta` and at most `1 - e^-eps (1 - delta - FPR)`. The two lines
    cross where FPR = 1 - TPR = (1 - delta) / (1 + e^eps), and above them lies an area of
    `(1 - delta)^2 / (1 + e^eps)`. It holds for any mixture of victims as well.

    >>> largest_area(0.0), round(largest_area(1.0), 4)
    (0.5, 0.7311)
    """
    return float(1 - (1 - delta) ** 2 * special.expit(-epsilon))


def _area(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4f}"


class AttackerAgain(Experiment):
    """Linked and unlinked guesses about a person at each preset, and their bounds."""

    name = "attacker"
    title = "The attacker again"
    picture = (9.0, 4.5)

    def cells(self) -> list[Cell]:
        return self.scale.all_of(self._family(row) for row in self._rows())

    def tables(self) -> list[Table]:
        rows, records = [], []
        for row in self._rows():
            family, settings = self._family(row), row.settings
            spent, bounds = self.reader.budget(family), self._bounds_of(family)
            found = {guess: self.reader.interval(family, guess) for guess in GUESSES}
            for guess, interval in found.items():
                about = {"preset": row.label, "question": row.question, "guess": guess, **spent}
                records += record(interval, **about, bound=bounds.get(guess))
            rows.append(
                (
                    row.label, row.question, f"{settings.epsilon:.3g}", f"{settings.reports}",
                    f"{settings.turns} of {settings.epochs}", budget(spent["local"]),
                    budget(spent["central"]), shown(found["linked"]), _area(bounds.get("linked")),
                    shown(found["unlinked"]), _area(bounds.get("unlinked")),
                    _area(bounds.get("gaussian")),
                )
            )  # fmt: skip
        headings = (
            "preset", "question", "eps", "k", "turns", "local budget", "central budget", "linked",
            "at most", "unlinked", "at most", "Gaussian limit",
        )  # fmt: skip
        title = f"{self.title}: AUC, {self._size()}"
        return [Table(self.name, title, headings, rows, records, [*self._verdict(), WHAT, BOUNDS])]

    def draw(self, figure: Figure) -> None:
        rows = self._rows()
        axes: Any = figure.subplots()
        for guess, colour in GUESSES.items():
            found = [
                (place, interval.mean, self._bounds_of(self._family(row))[guess])
                for place, row in enumerate(rows)
                if (interval := self.reader.interval(self._family(row), guess))
            ]
            at, means, bounds = zip(*found, strict=True) if found else ((), (), ())
            axes.plot(means, at, "o", color=colour, label=guess)
            axes.plot(bounds, at, "|", color=colour, markersize=16, label=f"{guess}, at most")
        axes.set_yticks(range(len(rows)), [f"{row.label}, {row.question}" for row in rows])
        axes.invert_yaxis()
        axes.set(xlabel="AUC", xlim=(0.49, 1.01))
        axes.grid(axis="x", alpha=0.3)
        figure.legend(loc="outside right upper", fontsize=8)

    def _verdict(self) -> list[str]:
        """How many cells are under their bounds, and which are not."""
        seen, over = 0, []
        for row, seed in product(self._rows(), self.scale.seeds):
            result = self.store.get(self._family(row)(seed))
            if result is None:
                continue
            seen += 1
            final, bounds = result["final"], result["bounds"]
            beyond = [
                f"{guess} {final[guess]:.4f} over {bounds[guess]:.4f}"
                for guess in GUESSES
                if final[guess] - ERRORS * final[f"{guess} error"] > bounds[guess]
            ]
            if beyond:
                over.append(f"{row.label}, {row.question}, seed {seed} ({', '.join(beyond)})")
        if not seen:
            return []
        but = f"; over it: {'; '.join(over)}" if over else ""
        return [f"Under the bound in {seen - len(over)} of {seen} cells{but}."]

    def _bounds_of(self, family: Family) -> dict[str, float]:
        """The same for every seed; none before anything is known."""
        found = (self.reader.store.get(family(seed)) for seed in self.reader.scale.seeds)
        return next((result["bounds"] for result in found if result is not None), {})

    def _rows(self) -> list[Row]:
        """Presets with the same settings share their rows."""
        names: dict[str, list[str]] = {}
        chosen = self._settings()
        for name, settings in chosen.items():
            names.setdefault(str(settings), []).append(name)
        together = [(", ".join(same), chosen[same[0]]) for same in names.values()]
        return [Row(*each, question) for each in together for question in QUESTIONS]

    def _settings(self) -> dict[str, Settings]:
        size, epochs = self._size(), self.scale.epochs if self.scale.about.quick else None
        public = self.scale.public(size)
        by_budget = plan_training(*public, budget=Budget(local=BY_TURNS), epochs=epochs)
        presets = {
            name: plan_training(*public, preset=name, epochs=epochs) for name in list_presets()
        }
        return {**presets, f"budget {BY_TURNS:g}": by_budget}

    def _size(self) -> Size:
        about = self.scale.about
        few = self.scale.users[0] if about.quick else scaled(USERS, about)
        return self.scale.small(min(few, about.users))

    def _family(self, row: Row) -> Family:
        trials, crowds = (80, 4) if self.scale.about.quick else (TRIALS, CROWDS)
        more = zip(OWN, (row.question, trials, crowds), strict=True)
        whole = Cell.training("attacker", self._size(), row.settings, 0)
        parameters = (*whole.parameters, *more)
        return lambda seed: replace(whole, seed=seed, draw=drawn_with(seed), parameters=parameters)
