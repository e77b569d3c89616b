"""The program: where it is, and commands that run and end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from typing import Any, Dict, List, Optional, Sequence, Union

from ._errors import failure

Path = Union[str, "os.PathLike[str]"]


def executable() -> str:
    """Returns the path of the program that came with this module, or else of that on PATH."""
    name = "lowpack.exe" if sys.platform == "win32" else "lowpack"
    user = "nt_user" if os.name == "nt" else "posix_user"
    beside = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # as pip install --target puts it
    places = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", scheme=user), os.path.join(beside, "bin")]
    for place in places:
        path = os.path.join(place, name)
        if os.path.isfile(path):
            return path
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is in none of {', '.join(places)}, and not on PATH")
    return found


def run(arguments: Sequence[Path]) -> str:
    """Runs the program and returns its standard output; raises what its exit code says."""
    command = [executable(), *[os.fspath(a) for a in arguments]]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode != 0:
        raise failure(done.returncode, done.stderr, _report(done.stdout))
    return done.stdout


def _report(text: str) -> Optional[Dict[str, Any]]:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def flags(**values: Union[None, bool, int, float, Path]) -> List[str]:
    """Returns the flags of named values; None and False stand for flags that are not given."""
    given: List[str] = []
    for name, value in values.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            given.append(flag)
        elif value is not None and value is not False:
            given += [flag, str(value) if isinstance(value, (int, float)) else os.fspath(value)]
    return given


def convert(
    checkpoint: Path,
    output: Path,
    *,
    layout: Optional[str] = None,
    quant: Optional[str] = None,
    head: Optional[str] = None,
    allow_lossy: bool = False,
    threads: Optional[int] = None,
    arguments: Sequence[Path] = (),
) -> Dict[str, Any]:
    """Turns a checkpoint (a path, or ORG/NAME) into a packed file; returns what lowpack convert --json says.

    arguments are further flags, as in lowpack convert --help.
    """
    given = flags(layout=layout, quant=quant, head=head, allow_lossy=allow_lossy, threads=threads, output=output)
    report: Dict[str, Any] = json.loads(run(["convert", "--json", *given, *arguments, "--", checkpoint]))
    return report


def verify(
    file: Path,
    *,
    source: Optional[Path] = None,
    level: Optional[str] = None,
    threads: Optional[int] = None,
    arguments: Sequence[Path] = (),
) -> Dict[str, Any]:
    """Proves that a packed file is what it says, and with source that it is what that checkpoint says.

    Returns the report of lowpack verify --json; raises InvalidInput, which has the report, if a check failed.
    """
    given = flags(source=source, level=level, threads=threads)
    report: Dict[str, Any] = json.loads(run(["verify", "--json", *given, *arguments, "--", file]))
    return report


def batch(
    model: Path,
    requests: Path,
    output: Path,
    *,
    errors: Optional[Path] = None,
    threads: Optional[int] = None,
    arguments: Sequence[Path] = (),
) -> None:
    """Answers a file of requests in the format of OpenAI's Batch API, as lines of JSON or as Parquet.

    output gets the answers, errors (or a file beside output) the requests that failed. A call that was interrupted
    continues when it is repeated. arguments are further flags, as in lowpack batch --help.
    """
    given = flags(errors=errors, threads=threads, output=output)
    run(["batch", *given, *arguments, "--", model, requests])


def version() -> Dict[str, Any]:
    """Returns what lowpack version --json says: version, revision, instruction sets of this CPU."""
    report: Dict[str, Any] = json.loads(run(["version", "--json"]))
    return report
