"""The logits of checkpoints as transformers computes them in float32. Arguments: a JSON list of tokens, folders. Prints one JSON line
for each folder: {"logits": [[…], …]}, or {"error": …} where transformers fails, and "unused": the tensors that it does not use."""
import json, logging, sys, warnings

warnings.filterwarnings("ignore")
import torch, transformers

transformers.logging.set_verbosity(logging.CRITICAL)
torch.set_num_threads(1)
tokens = torch.tensor([json.loads(sys.argv[1])])
for path in sys.argv[2:]:
    try:
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        if info["missing_keys"] or info["mismatched_keys"]:
            raise ValueError(f"missing {sorted(info['missing_keys'])}, of another shape {sorted(info['mismatched_keys'])}")
        with torch.no_grad():
            logits = model.eval()(tokens, use_cache=False).logits[0]
        print(json.dumps({"logits": logits.tolist(), "unused": sorted(info["unexpected_keys"])}))
    except Exception as e:  # a form that the class does not take
        print(json.dumps({"error": f"{type(e).__name__}: {e}"[:300]}))
