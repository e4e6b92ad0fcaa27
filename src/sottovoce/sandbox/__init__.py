"""The live system, driven and measured from outside: a swarm of clients, and its benchmark.

Nothing is imported here: worker processes begin with this package and need little of it.
"""
