"""What programs of the openai package expect of a server: they end at once where it is not so."""
import sys


def check(ok, what):
    if not ok:
        sys.exit(f"{what}")


def refused(kind, call, param=None):
    try:
        call()
    except kind as e:
        check(param is None or e.param == param, f"{e!r}: want param {param}")
        return
    sys.exit(f"{kind.__name__} expected")
