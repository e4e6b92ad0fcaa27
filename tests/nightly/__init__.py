"""Whole systems, real processes, other browsers, guides and releases: what takes minutes."""
