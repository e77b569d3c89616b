"""For each miniature below a folder: all fields of its class of configurations, and the logits with keys changed that mean no
other model. Arguments: the folder, a JSON list of the keys, names of miniatures. Prints {name: {"config": …, "differ": [keys]}}."""
import copy, json, os, sys
import torch, transformers

root, silent, names = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
# What a changed value would not leave comparable: the type of the weights, and which code computes.
skipped = {"dtype", "torch_dtype", "quantization", "quantization_config", "attn_implementation", "_attn_implementation",
           "_experts_implementation", "use_kernels", "return_dict", "torchscript", "auto_map", "is_encoder_decoder"}


values = {"cache_implementation": "static", "suppress_tokens": [1], "begin_suppress_tokens": [1], "bad_words_ids": [[1]]}


def changed(key, value):
    if key in values:
        return values[key]
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if value is None or isinstance(value, (list, dict)):
        return 1
    return value + "x"


def logits(path, config):
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_pretrained(path, config=config, dtype=torch.float32, attn_implementation="eager").eval()
    tokens = torch.tensor([[1, 5, 9, 2, 7, 3, 11, 4, 6, 8, 1, 2]])
    with torch.no_grad():
        return model(tokens, use_cache=False, return_dict=True).logits


def with_keys(base, keys):
    config = copy.deepcopy(base)
    for key in keys:
        try:
            setattr(config, key, changed(key, getattr(base, key, None)))
        except Exception:  # a value that the class does not take has no effect
            setattr(config, key, getattr(base, key, None))
    return config


answer = {}
for name in names:
    path = os.path.join(root, name)
    base = transformers.AutoConfig.from_pretrained(path)
    keys = [k for k in silent if k not in skipped]
    want = logits(path, copy.deepcopy(base))
    differ = []
    try:
        same = torch.equal(logits(path, with_keys(base, keys)), want)
    except Exception:
        same = False
    for key in keys if not same else []:
        try:
            if not torch.equal(logits(path, with_keys(base, [key])), want):
                differ.append(key)
        except Exception as e:
            differ.append(f"{key}: {e}")
    answer[name] = {"config": base.to_dict(), "differ": differ}
json.dump(answer, sys.stdout, default=str)
