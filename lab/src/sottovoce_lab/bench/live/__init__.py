"""The live system: its speed compared with the most that its cores can do, and its memory."""

# No imports: worker processes import this package, and their memory is measured.
