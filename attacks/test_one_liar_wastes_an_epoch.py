"""One batch of noise in a crowd that has just come together: everybody's epoch is thrown away.

Run from the repository: python -m pytest attacks/test_one_liar_wastes_an_epoch.py
"""

from pathlib import Path

from tests.live.test_crowd import LEAST, REPORTS, TRAINING, fill, is_unchanged, noise, running


def test_it(tmp_path: Path) -> None:
    with running(tmp_path, training=TRAINING, least_clients=LEAST) as stack:
        gate, first = stack.gates["east"], stack.world.signed().manifest
        fill(gate, LEAST - 1, lambda seed: stack.random_batch(gate, seed))
        fill(gate, 1, lambda _: noise(gate))
        stack.turn()
        assert is_unchanged(stack, first)
        assert stack.world.server.epochs()[0].crowdless == (LEAST - 1) * REPORTS
