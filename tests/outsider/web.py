"""The way to the proxy: requests that carry nothing which tells devices apart."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import httpx


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


Fetch = Callable[[str, str, bytes | None, int], Answer]
"""Method, path, body, and how many bytes of the answer are wanted at most: one more is read.

No answer is an OSError.
"""


class Web:
    def __init__(self, http: httpx.Client, url: str):
        self._http, self._url = http, url

    def __call__(self, method: str, path: str, body: bytes | None, most: int) -> Answer:
        headers = {"User-Agent": "sottovoce", "Accept": "*/*", "Accept-Encoding": "identity"}
        if body is not None:
            headers["Content-Type"] = "application/octet-stream"
        request = httpx.Request(method, self._url + path, headers=headers, content=body)
        try:
            answer = self._http.send(request, stream=True, follow_redirects=False)
            return Answer(answer.status_code, dict(answer.headers), _body(answer, most))
        except httpx.TransportError as error:
            raise ConnectionError(str(error)) from error


def _body(answer: httpx.Response, most: int) -> bytes:
    body = b""
    for piece in answer.iter_raw():
        body += piece
        if len(body) > most:
            break
    answer.close()
    return body[: most + 1]
