"""What Python's gguf package reads in a file: every tensor with the digest of its data, and some keys."""
import hashlib, json, sys
from gguf import GGUFReader

r = GGUFReader(sys.argv[1])
print(json.dumps({
    "tensors": [[t.name, t.tensor_type.name, [int(d) for d in reversed(t.shape)], hashlib.sha256(t.data.tobytes()).hexdigest()] for t in r.tensors],
    "architecture": r.fields["general.architecture"].contents(),
    "tokens": r.fields["tokenizer.ggml.tokens"].contents(),
    "types": r.fields["tokenizer.ggml.token_type"].contents(),
}))
