"""The loglikelihoods that lm-eval's local-completions gets from a server. argv: base URL, directory of the tokenizer, token that
texts begin with, scratch directory, texts. Prints a line per text; then what a multiple choice and a generation were given."""
import json
import pathlib
import sys

import lm_eval
import lm_eval_sums  # noqa: F401
from lm_eval.tasks import TaskManager

url, tokenizer, begin, scratch, *texts = sys.argv[1:]
scratch = pathlib.Path(scratch)

task = """task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: {kind}
doc_to_text: {text}
doc_to_target: {target}
{more}
"""
data = scratch / "data.jsonl"
data.write_text("".join(json.dumps({"text": t, "a": t.split()[0], "b": t.split()[-1]}) + "\n" for t in texts))
for name, kind, text, target, more in (
    ("roll", "loglikelihood_rolling", '""', '"{{text}}"', "metric_list: [{metric: word_perplexity}]"),
    ("choice", "multiple_choice", '"{{text}}"', "0", 'doc_to_choice: ["{{a}}", "{{b}}"]\nmetric_list: [{metric: acc}]'),
    ("generate", "generate_until", '"{{text}}"', '"{{b}}"', 'generation_kwargs: {until: ["\\n\\n"], max_gen_toks: 6, do_sample: false}\nmetric_list: [{metric: exact_match}]'),
):
    (scratch / f"{name}.yaml").write_text(task.format(name=name, data=data, kind=kind, text=text, target=target, more=more))

got = lm_eval.simple_evaluate(
    model="local-completions",
    model_args=f"base_url={url}/v1/completions,model=tiny-bitnet,tokenizer={tokenizer},tokenizer_backend=huggingface,num_concurrent=2,tokenized_requests=True,"
    f"max_length=200,custom_prefix_token_id={begin},max_retries=1",
    tasks=["roll", "choice", "generate"], task_manager=TaskManager(include_path=str(scratch)), batch_size=2, bootstrap_iters=0)["samples"]
for s in sorted(got["roll"], key=lambda s: s["doc_id"]):
    print(repr(float(s["resps"][0][0])))
for s in sorted(got["choice"], key=lambda s: s["doc_id"]):
    print(*[repr(float(ll)) + ":" + str(greedy) for [(ll, greedy)] in s["resps"]])
for s in sorted(got["generate"], key=lambda s: s["doc_id"]):
    print(json.dumps(s["resps"][0][0]))
