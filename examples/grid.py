"""How good is it for how much privacy? A grid search over epsilon and reports, in ten lines.

Run it: pip install scikit-learn && python examples/grid.py
"""

from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from sottovoce import FederatedMF
from sottovoce.data import leave_one_out, load


def main() -> dict[float, float]:
    """By what each person spends in all (epsilon of a lifetime): HR@10 against 99 films."""
    split = leave_one_out(load("ml-latest-small").filter(20), "random", seed=1000)
    model, found = FederatedMF(epochs=10, seed=1000), {}
    for each in ParameterGrid({"epsilon": [1.0, 4.0, 8.0], "reports": [1, 20]}):
        trained = clone(model).set_params(**each).fit(split.train)
        found[trained.privacy().training.pure] = trained.evaluate(split.train, split.left_out)[
            "hr@10"
        ]
    return dict(sorted(found.items()))


if __name__ == "__main__":
    for spent, quality in main().items():
        print(f"epsilon {spent:6g}: HR@10 {quality:.3f}")  # noqa: T201
