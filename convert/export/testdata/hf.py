"""hf.py CONVERTER MODEL OUT TYPE ...: GGUF of Hugging Face checkpoints by llama.cpp's convert_hf_to_gguf.py, which lies in the folder CONVERTER. A model
without tokenizer files gets no vocabulary."""
import os
import sys

folder, jobs = sys.argv[1], sys.argv[2:]
sys.path.insert(0, folder)
import convert_hf_to_gguf as converter  # noqa: E402

classes = converter.get_model_class


def bare(cls):
    return type(cls.__name__, (cls,), {"set_vocab": lambda self: self.gguf_writer.add_tokenizer_model("none"), "model_arch": cls.model_arch})


for model, out, kind in zip(jobs[::3], jobs[1::3], jobs[2::3]):
    plain = not any(os.path.exists(os.path.join(model, name)) for name in ("tokenizer.json", "tokenizer.model"))
    converter.get_model_class = lambda *a, **k: bare(classes(*a, **k)) if plain else classes(*a, **k)
    sys.argv = ["convert_hf_to_gguf.py", model, "--outfile", out, "--outtype", kind]
    converter.main()
