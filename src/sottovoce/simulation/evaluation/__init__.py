"""Evaluation: ranks of test items, metrics of ranks and of lists, and intervals over runs."""
