"""A whole system on one machine: its folder, its processes, and people who take part in it.

Nothing is imported here: worker processes begin with this package and need little of it.
"""
