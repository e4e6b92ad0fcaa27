"""A training without end over a data set in the order of its days."""
