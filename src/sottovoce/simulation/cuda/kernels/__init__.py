"""Reports on a card, one module for each mechanism.

Such a module has `SOURCE`, its file in `source/`, and four functions:

- `allocate(memory, mechanism, histories)` puts on the card what the engine needs for its lifetime;
- `prepare(memory, mechanism, V)` computes what an epoch needs; V is on the card;
- `report(memory)` adds the reports of all who take part; vectors are solved;
- `sum_by_item(memory, mechanism, n_reports)` writes the sums of signs by item and factor into
  `wide`, and returns the factor that makes an estimate of them.
"""
