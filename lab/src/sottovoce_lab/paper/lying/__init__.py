"""People who lie: what they send, whom it reaches, and what a server can do about it."""
