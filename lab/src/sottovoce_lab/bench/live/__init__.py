"""How fast the live system is, beside what its cores could do at most, and how much memory.

Nothing is imported here: worker processes begin with this package and need little of it.
"""
