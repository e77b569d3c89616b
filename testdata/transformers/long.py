"""Logits of long texts. Arguments: for each model a folder, a JSON list of lengths, the last one that of the whole text, and the number of tokens
to compute at once; where these are fewer, a cache has the others. Prints one JSON line for each folder: the logits after each of the
lengths."""
import json, logging, sys, warnings

warnings.filterwarnings("ignore")
import torch, transformers

transformers.logging.set_verbosity(logging.CRITICAL)
torch.set_num_threads(2)
for path, lengths, size in zip(sys.argv[1::3], map(json.loads, sys.argv[2::3]), map(int, sys.argv[3::3])):
    count, x, tokens = lengths[-1], 1, []
    for _ in range(count):
        x = (x * 1103515245 + 12345) % 2**31
        tokens.append((x >> 16) % 80)
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="sdpa").eval()
    cache, logits = transformers.DynamicCache(config=model.config) if size < count else None, []
    with torch.no_grad():
        for at in range(0, count, size):
            keep = torch.tensor([n - 1 - at for n in lengths if at < n <= at + size], dtype=torch.long)
            out = model(torch.tensor([tokens[at : at + size]]), past_key_values=cache, use_cache=cache is not None,
                        logits_to_keep=keep if len(keep) else 1)
            logits += out.logits[0].tolist() if len(keep) else []
    print(json.dumps(logits), flush=True)
