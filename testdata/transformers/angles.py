"""Logits of a long text in float64, with angles of rotation as transformers computes them, in float32, and in float64. Arguments: a JSON
list of tokens, folders. Prints two JSON lines for each folder: the logits with the one angles and the other, {"logits": [[…], …]}."""
import json, logging, sys, warnings

warnings.filterwarnings("ignore")
import torch, transformers

transformers.logging.set_verbosity(logging.CRITICAL)
torch.set_num_threads(1)


def exact(rotary):
    """The forward of an unscaled rotary embedding, all of whose arithmetic is float64."""
    config = rotary.config
    theta, columns = config.rope_parameters["rope_theta"], 2 * len(rotary.inv_freq)
    frequencies = theta ** (-torch.arange(0, columns, 2, dtype=torch.float64) / columns)

    def forward(x, position_ids):
        angles = position_ids[..., None].double() * frequencies
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()

    return forward


tokens = torch.tensor([json.loads(sys.argv[1])])
for path in sys.argv[2:]:
    how = dict(dtype=torch.float64, attn_implementation="eager", experts_implementation="eager")
    model = transformers.AutoModelForCausalLM.from_pretrained(path, **how).eval()
    for change in (False, True):
        if change:
            model.model.rotary_emb.forward = exact(model.model.rotary_emb)
        with torch.no_grad():
            print(json.dumps({"logits": model(tokens, use_cache=False).logits[0].tolist()}), flush=True)
