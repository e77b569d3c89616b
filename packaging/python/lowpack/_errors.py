"""Exceptions by the exit codes of the program."""

from __future__ import annotations

from typing import Any, Dict, Optional, Type


class LowpackError(Exception):
    """The program failed. The text is what it said on standard error; report is its JSON, where it printed some."""

    def __init__(self, message: str, exit_code: Optional[int] = None, report: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.report = report


class InvalidInput(LowpackError):
    """The input is bad, or a check failed (exit code 1; of a server, a refused request)."""


class WrongUsage(LowpackError):
    """A flag or an argument is wrong (exit code 2)."""


class EnvironmentFailed(LowpackError):
    """The environment failed: a full disk, a missing permission (exit code 3)."""


class Interrupted(LowpackError):
    """A signal ended the program (exit codes 130 and 143)."""


BY_EXIT_CODE: Dict[int, Type[LowpackError]] = {
    1: InvalidInput,
    2: WrongUsage,
    3: EnvironmentFailed,
    130: Interrupted,
    143: Interrupted,
}


def failure(exit_code: int, stderr: str, report: Optional[Dict[str, Any]] = None) -> LowpackError:
    """Returns the exception for an exit code; the last lines of standard error say what was wrong."""
    kind = BY_EXIT_CODE.get(exit_code, LowpackError)
    said = [line for line in stderr.splitlines() if line.startswith("lowpack: ")]
    message = "\n".join(said).replace("lowpack: ", "", 1) or stderr.strip()
    if not message and report is not None:
        message = "a check failed; report says which"
    return kind(message or f"lowpack ended with exit code {exit_code}", exit_code, report)
