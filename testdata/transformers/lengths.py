"""Logits of texts of several lengths, whose rotations depend on the length. Arguments: a JSON list of tokens, a JSON list of lengths, the
number of tokens to generate after the first length, folders. Prints one JSON line for each folder: "logits" after each length, without a
cache; "generated": the tokens that generate() appends with its cache, and the "steps": their logits."""
import json, logging, sys, warnings

warnings.filterwarnings("ignore")
import torch, transformers

transformers.logging.set_verbosity(logging.CRITICAL)
torch.set_num_threads(1)
tokens, lengths, more = json.loads(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
for path in sys.argv[4:]:
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        logits = [model(torch.tensor([tokens[:n]]), use_cache=False).logits[0, -1].tolist() for n in lengths]
        out = model.generate(torch.tensor([tokens[: lengths[0]]]), do_sample=False, max_new_tokens=more, min_new_tokens=more,
                             eos_token_id=None, output_logits=True, return_dict_in_generate=True)
    print(json.dumps({"logits": logits, "generated": out.sequences[0, lengths[0]:].tolist(),
                      "steps": [z[0].tolist() for z in out.logits]}))
