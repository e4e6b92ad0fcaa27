"""A mechanism and an engine that nobody needs: they show what it takes to add one."""
