"""Quantizes with the library of llama.cpp: quantize.py LIBLLAMA IN OUTDIR FTYPE... For each number of enum llama_ftype it writes
OUTDIR/FTYPE.gguf, all matrices in one type, and OUTDIR/FTYPE-f32.gguf, what the library itself dequantizes that to. For a number
with the letter m it writes OUTDIR/FTYPE.gguf alone, with the mix of types that files of this name have."""
import ctypes as c, glob, os, sys

library, source, out, ftypes = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
folder = os.path.dirname(os.path.realpath(library))
os.chdir(folder)  # it finds what it depends on there
load = lambda pattern: c.CDLL(glob.glob(os.path.join(folder, pattern))[0], mode=c.RTLD_GLOBAL)
load("libggml-base.so")
backends = load("libggml.v*.so")
llama = load(os.path.basename(library))


class Params(c.Structure):  # llama_model_quantize_params, as far as it is set here; the library fills in the rest
    _fields_ = [("threads", c.c_int32), ("ftype", c.c_int32), ("output", c.c_int32), ("embedding", c.c_int32),
                ("requantize", c.c_bool), ("quantize_output", c.c_bool), ("only_copy", c.c_bool), ("pure", c.c_bool), ("rest", c.c_uint8 * 252)]


backends.ggml_backend_load_all_from_path.argtypes = [c.c_char_p]
backends.ggml_backend_load_all_from_path(folder.encode())
llama.llama_model_quantize_default_params.restype = Params


def quantize(path, to, ftype, pure=True):
    p = llama.llama_model_quantize_default_params()
    p.threads, p.ftype, p.requantize, p.pure = 1, ftype, True, pure
    if llama.llama_model_quantize(path.encode(), to.encode(), c.byref(p)) != 0:
        sys.exit(f"{path} to type {ftype}")


for ftype in ftypes:
    to = os.path.join(out, ftype)
    mixed = ftype.endswith("m")
    quantize(source, to + ".gguf", int(ftype.rstrip("m")), not mixed)
    if not mixed:
        quantize(to + ".gguf", to + "-f32.gguf", 0)
