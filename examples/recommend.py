"""Train on synthetic people, then recommend to somebody who was not among them.

Run it: python examples/recommend.py
"""

import numpy as np
from scipy import sparse

from sottovoce import FederatedMF
from sottovoce.data import synthetic_people


def main() -> list[str]:
    """Return the titles that are recommended to a new viewer of three films."""
    people = synthetic_people(n_users=2000, n_items=500, seed=0)
    assert people.titles is not None
    model = FederatedMF(factors=5, epochs=10, epsilon=2.5, reports=100, seed=0)
    model.fit(people.histories.to_csr())

    seen = ["Toy Story (1995)", "Finding Nemo (2003)", "Shrek (2001)"]
    numbers = [people.titles.tolist().index(title) for title in seen]
    history = sparse.csr_matrix((np.ones(3), ([0, 0, 0], numbers)), shape=(1, 500))
    items, _ = model.recommend(0, history, N=5)
    return [str(people.titles[item]) for item in items]


if __name__ == "__main__":
    print("\n".join(main()))  # noqa: T201
