"""schemathesis against a server: requests made from /openapi.json, right and wrong ones, a bounded number. argv: base URL, seed."""
import os
import sys
import tempfile

import schemathesis


@schemathesis.check
def refused_with_code(ctx, response, case):
    """A request that the document allows is refused only for what no document can say, and then with a code. In the place of
    positive_data_acceptance, to which a prompt that is too long for the model is a failure."""
    meta = case.meta
    if meta is not None and meta.generation.mode.is_positive and response.status_code == 400:
        error = response.json()["error"]
        assert error["code"], f"a request that the document allows is refused: {error['message']}"


if __name__ == "__main__":
    from schemathesis.cli import schemathesis as main

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # its cache is written there
        # One worker: Python 3.11 loses count of recursion when two threads parse (python/cpython#106905), and one request fails by chance.
        main(["run", sys.argv[1] + "/openapi.json", "--workers", "1", "--phases", "examples,coverage,fuzzing", "--max-examples", "12", "--suppress-health-check", "all", "--seed", sys.argv[2],
              "--request-timeout", "120", "--continue-on-failure", "--exclude-checks", "positive_data_acceptance", "--no-color"])
