"""Runs command lines of model-signing, a JSON array of arrays in the file that is named, and prints an array of [worked, what it said]."""

import json
import sys

from click.testing import CliRunner
from model_signing._cli import main

answers = []
with open(sys.argv[1], encoding="utf-8") as lines:
    for line in json.load(lines):
        result = CliRunner().invoke(main, line)
        answers.append([result.exit_code == 0, result.output + (repr(result.exception) if result.exception else "")])
print(json.dumps(answers))
