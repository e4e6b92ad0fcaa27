"""What proxy and server share: settings files, HTTP, connections, a heartbeat, the built page."""
