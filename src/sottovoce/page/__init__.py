"""The page that a proxy serves: built from `web/` into `assets/`, so that no Node is needed to run.

Everything on it runs in the visitor's browser. The proxy gives out files, the same to everybody,
and learns nothing by it that a client's requests would not tell.
"""

from sottovoce.page.routes import Content, page_routes

__all__ = ["Content", "page_routes"]
