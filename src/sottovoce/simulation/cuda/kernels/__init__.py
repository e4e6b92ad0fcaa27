"""Kernels on a graphics card that compute reports, one module for each mechanism.

Such a module has `SOURCE`, the name of its file in `source/`, and four functions:

- `allocate(memory, mechanism, histories)` creates the arrays that the engine keeps until it is
  closed;
- `prepare(memory, mechanism, V)` computes the arrays of one epoch. V is on the card already;
- `report(memory)` adds the reports of all people in the present piece who take part. Their user
  vectors are on the card already;
- `sum_by_item(memory, mechanism, n_reports)` writes the sums of signs by item and factor into
  `wide`. It returns the number by which these sums are multiplied to estimate the gradient.
"""
