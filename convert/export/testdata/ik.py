"""Asks ik_llama.cpp: ik.py FILE SPEC LOGITS, with SPEC {"texts": [...], "ids": [...]}. Prints the tokens of the texts as JSON, and
writes the logits behind each of the ids to LOGITS, float32. One thread, no flash attention, float16 cache."""
import json, os, sys
import numpy as np

sys.stdout.flush()
out = os.dup(1)
os.dup2(2, 1)  # the library writes to standard output
from ik_llama_cpp import _ctypes_api as C
from ik_llama_cpp._internals import IkModel, make_batch_range

path, spec, logits = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
model = IkModel(path)
params = C.llama_context_default_params()
params.n_ctx = params.n_batch = params.n_ubatch = 256
params.n_seq_max = params.n_threads = params.n_threads_batch = 1
params.flash_attn = False
ctx = C.llama_init_from_model(model.model, params)
C._lib.llama_get_logits_ith.restype = C.ctypes.POINTER(C.ctypes.c_float)
C._lib.llama_get_logits_ith.argtypes = [C.ctypes.c_void_p, C.ctypes.c_int32]
rows = []
for i, id in enumerate(spec["ids"]):
    batch = make_batch_range([id], pos_start=i, logits_last=True)
    assert C.llama_decode(ctx, batch) == 0
    rows.append(np.ctypeslib.as_array(C._lib.llama_get_logits_ith(ctx, -1), (model.n_vocab,)).copy())
np.array(rows, "<f4").tofile(logits)
os.write(out, json.dumps({"vocabulary": model.n_vocab, "tokens": [model.tokenize(t, add_bos=False) for t in spec["texts"]]}).encode())
