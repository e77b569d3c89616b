"""A server as a child process."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import threading
from types import TracebackType
from typing import List, Optional, Sequence, Type

from ._errors import failure
from ._program import Path, executable, flags

_READY = re.compile(r"^note: .* at (http://\S+)/v1,")


class Server:
    """lowpack serve on a free port of this machine, until close or the end of a with block.

    base_url and api_key are those that clients of OpenAI take. The key is random: others on this machine cannot use
    the server.
    """

    base_url: str
    api_key: str

    def __init__(self, *models: Path, arguments: Sequence[Path] = ()) -> None:
        self.api_key = secrets.token_urlsafe(24)
        self._said: List[str] = []
        given = [os.fspath(a) for a in [*arguments, "--", *models]]
        self._process = subprocess.Popen(
            [executable(), "serve", "--port", "0", *given],
            env={**os.environ, "LOWPACK_API_KEY": self.api_key},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        try:
            self.base_url = self._await_ready()
        except BaseException:
            self.close()
            raise
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _await_ready(self) -> str:
        """Reads what the server says until it names its address; it has ended where it says no more."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            ready = _READY.match(line)
            if ready:
                return ready[1] + "/v1"
            self._said.append(line)
        raise failure(self._process.wait(), "".join(self._said))

    def _read(self) -> None:
        """Keeps the last lines that the server says, so that it never waits for a reader."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said = [*self._said[-20:], line]

    def poll(self) -> Optional[Exception]:
        """Returns why the server has ended; None while it runs."""
        code = self._process.poll()
        return None if code is None else failure(code, "".join(self._said))

    def close(self) -> None:
        """Ends the server: running requests may finish, for as long as --drain says."""
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait()
        if hasattr(self, "_reader"):
            self._reader.join()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        self.close()


def serve(
    *models: Path,
    context: Optional[int] = None,
    parallel: Optional[int] = None,
    threads: Optional[int] = None,
    arguments: Sequence[Path] = (),
) -> Server:
    """Serves packed files (or checkpoints, or ORG/NAME); arguments are further flags, as in lowpack serve --help."""
    given: List[Path] = [*flags(context=context, parallel=parallel, threads=threads), *arguments]
    return Server(*models, arguments=given)
