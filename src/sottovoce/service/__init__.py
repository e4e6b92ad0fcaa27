"""What proxy and server have in common: settings from TOML, HTTP without surprises, a heartbeat."""
