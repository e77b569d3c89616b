"""Quantizes with the library of llama.cpp: quantize.py LIBLLAMA IN OUTDIR FTYPE... For each number of enum llama_ftype it writes
OUTDIR/FTYPE.gguf, all matrices in one type, and OUTDIR/FTYPE-f32.gguf, what the library itself dequantizes that to. For a number
with the letter m it writes OUTDIR/FTYPE.gguf alone, with the mix of types that files of this name have."""
import ctypes as c, glob, os, sys

import gguf

library, source, out, ftypes = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
folder = os.path.dirname(os.path.realpath(library))
os.chdir(folder)  # it finds what it depends on there
load = lambda pattern: c.CDLL(glob.glob(os.path.join(folder, pattern))[0], mode=c.RTLD_GLOBAL)
load("libggml-base.so")
backends = load("libggml.v*.so")
llama = load(os.path.basename(library))


class Params(c.Structure):  # llama_model_quantize_params, as far as it is set here; the library fills in the rest
    _fields_ = [("threads", c.c_int32), ("ftype", c.c_int32), ("output", c.c_int32), ("embedding", c.c_int32),
                ("requantize", c.c_bool), ("quantize_output", c.c_bool), ("only_copy", c.c_bool), ("pure", c.c_bool), ("split", c.c_bool), ("dry", c.c_bool),
                ("importance", c.c_void_p), ("rest", c.c_uint8 * 240)]


class Importance(c.Structure):  # llama_model_imatrix_data: a number for each column of a matrix
    _fields_ = [("name", c.c_char_p), ("data", c.POINTER(c.c_float)), ("size", c.c_size_t)]


backends.ggml_backend_load_all_from_path.argtypes = [c.c_char_p]
backends.ggml_backend_load_all_from_path(folder.encode())
llama.llama_model_quantize_default_params.restype = Params


def importance(path):
    """Numbers that differ for all matrices of a file: the i-quants below IQ3_S are not made without."""
    matrices = [t for t in gguf.GGUFReader(path).tensors if len(t.shape) == 2]
    rows = [(c.c_float * int(t.shape[0]))(*(1 + j % 7 / 8 for j in range(int(t.shape[0])))) for t in matrices]
    return (Importance * (len(rows) + 1))(*(Importance(t.name.encode(), r, len(r)) for t, r in zip(matrices, rows)))


def quantize(path, to, ftype, pure=True):
    p = llama.llama_model_quantize_default_params()
    p.threads, p.ftype, p.requantize, p.pure = 1, ftype, True, pure
    if ftype in (19, 20, 23, 24, 29, 31):
        p.importance = c.cast(own := importance(path), c.c_void_p)
    if llama.llama_model_quantize(path.encode(), to.encode(), c.byref(p)) != 0:
        sys.exit(f"{path} to type {ftype}")


for ftype in ftypes:
    to = os.path.join(out, ftype)
    mixed = ftype.endswith("m")
    quantize(source, to + ".gguf", int(ftype.rstrip("m")), not mixed)
    if not mixed:
        quantize(to + ".gguf", to + "-f32.gguf", 0)
