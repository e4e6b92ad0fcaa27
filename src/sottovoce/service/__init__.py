"""Code that proxy and server share: settings files, HTTP, connections, heartbeat and page."""
