"""What lm-eval's local-completions gets for the tasks of docs/examples/lm-eval. argv: base URL, directory of the tokenizer, directory
of the tasks, directory of the questions. Prints the figures of each task, and the answers by question, as JSON."""
import json
import os
import pathlib
import sys

import lm_eval
import lm_eval_sums  # noqa: F401
from lm_eval.tasks import TaskManager

url, tokenizer, tasks, questions = sys.argv[1:]
tokenizer, tasks = str(pathlib.Path(tokenizer).resolve()), str(pathlib.Path(tasks).resolve())
os.chdir(questions)
names = ["last_word", "cloze", "passkey"]
got = lm_eval.simple_evaluate(
    model="local-completions",
    model_args=f"base_url={url}/v1/completions,model=tiny-bitnet,tokenizer={tokenizer},tokenizer_backend=huggingface,num_concurrent=2,tokenized_requests=True,"
    "add_bos_token=True,max_length=257,max_retries=1",
    tasks=names, task_manager=TaskManager(include_path=tasks), batch_size=2, bootstrap_iters=0)
out = {}
for name in names:
    samples = sorted(got["samples"][name], key=lambda s: s["doc_id"])
    out[name] = {
        "figures": {key.removesuffix(",none"): value for key, value in got["results"][name].items() if key.endswith(",none") and "stderr" not in key},
        "answers": [{"loglikelihoods": [float(ll) for [(ll, _)] in s["resps"]], "greedy": [bool(greedy) for [(_, greedy)] in s["resps"]]} for s in samples],
    }
print(json.dumps(out))
