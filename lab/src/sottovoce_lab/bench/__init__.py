"""Benchmarks: an epoch on every engine compared with implicit's ALS, and the live system."""

# No imports: worker processes import this package, and their memory is measured.
