"""Prints what `tokenizers` makes of texts, and the texts that it makes of their tokens, as compact JSON.

Arguments: a tokenizer.json, and a file with a list of texts.
"""
import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file(sys.argv[1])
encoded = [e.ids for e in tokenizer.encode_batch(json.loads(Path(sys.argv[2]).read_text()), add_special_tokens=False)]
json.dump({"encoded": encoded, "decoded": tokenizer.decode_batch(encoded, skip_special_tokens=False)}, sys.stdout)
