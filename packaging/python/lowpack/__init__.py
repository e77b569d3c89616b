"""The program lowpack, from Python: packs ultra-low-bit language models for CPUs, proves, runs and serves them."""

from ._errors import EnvironmentFailed, Interrupted, InvalidInput, LowpackError, WrongUsage
from ._model import Model
from ._program import batch, convert, executable, run, verify, version
from ._server import Server, serve

__all__ = [
    "EnvironmentFailed",
    "Interrupted",
    "InvalidInput",
    "LowpackError",
    "Model",
    "Server",
    "WrongUsage",
    "batch",
    "convert",
    "executable",
    "run",
    "serve",
    "verify",
    "version",
]
