"""A model that continues texts."""

from __future__ import annotations

import http.client
import json
from types import TracebackType
from typing import Any, Dict, Iterator, Optional, Sequence, Type
from urllib.parse import urlsplit

from ._errors import InvalidInput, LowpackError
from ._program import Path
from ._server import serve


class Model:
    """A packed file (or a checkpoint, or ORG/NAME) in a child process, until close or the end of a with block."""

    def __init__(
        self,
        path: Path,
        *,
        context: Optional[int] = None,
        threads: Optional[int] = None,
        arguments: Sequence[Path] = (),
    ) -> None:
        self._server = serve(path, context=context, threads=threads, arguments=arguments)

    def generate(
        self,
        prompt: str,
        *,
        tokens: int = 128,
        temperature: Optional[float] = None,
        top_k: Optional[int] = None,
        top_p: Optional[float] = None,
        seed: int = 0,
        stop: Sequence[str] = (),
    ) -> str:
        """Returns the text after prompt; the same arguments give the same text, as those of lowpack run do."""
        return "".join(
            self.stream(
                prompt, tokens=tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, stop=stop
            )
        )

    def stream(
        self,
        prompt: str,
        *,
        tokens: int = 128,
        temperature: Optional[float] = None,
        top_k: Optional[int] = None,
        top_p: Optional[float] = None,
        seed: int = 0,
        stop: Sequence[str] = (),
    ) -> Iterator[str]:
        """Yields the text after prompt as it is computed. Closing the iterator ends the computation."""
        request = {
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "seed": seed,
            "stop": list(stop),
            "stream": True,
        }
        return self._pieces({name: value for name, value in request.items() if value is not None and value != []})

    def _pieces(self, request: Dict[str, Any]) -> Iterator[str]:
        connection = http.client.HTTPConnection(urlsplit(self._server.base_url).netloc)
        try:
            yield from _completion(connection, self._server.api_key, request)
        except (OSError, http.client.HTTPException) as error:
            raise self._server.poll() or LowpackError(f"the server broke the connection: {error}") from error
        finally:
            connection.close()

    def close(self) -> None:
        """Ends the child process."""
        self._server.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        self.close()


def _completion(connection: http.client.HTTPConnection, key: str, request: Dict[str, Any]) -> Iterator[str]:
    """Asks for a completion, and yields the text of its events."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/completions", json.dumps(request), headers)
    response = connection.getresponse()
    if response.status != 200:
        raise InvalidInput(_message(response.read()))
    for line in response:
        if not line.startswith(b"data: "):
            continue
        data = line[len(b"data: ") :].strip()
        if data == b"[DONE]":
            return
        event = json.loads(data)
        if "error" in event:
            raise LowpackError(_message(data))
        for choice in event["choices"]:
            if choice["text"]:
                yield choice["text"]
    raise LowpackError("the server broke the stream")


def _message(body: bytes) -> str:
    """Returns what an error of the server says."""
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace")
