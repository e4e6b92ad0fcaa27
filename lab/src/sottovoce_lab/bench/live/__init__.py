"""The live system: its speed compared with the most that its cores can do, and its memory."""

# No imports, as in `sottovoce_lab.bench`.
