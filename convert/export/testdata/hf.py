"""hf.py CONVERTER (MODEL OUT TYPE)...: GGUF of Hugging Face checkpoints, without a vocabulary, by llama.cpp's convert_hf_to_gguf.py, which lies
in the folder CONVERTER."""
import sys

folder, jobs = sys.argv[1], sys.argv[2:]
sys.path.insert(0, folder)
import convert_hf_to_gguf as converter  # noqa: E402

named = converter.get_model_class


def bare(*args, **kwargs):
    cls = named(*args, **kwargs)
    return type(cls.__name__, (cls,), {"set_vocab": lambda self: self.gguf_writer.add_tokenizer_model("none"), "model_arch": cls.model_arch})


converter.get_model_class = bare
for model, out, kind in zip(jobs[::3], jobs[1::3], jobs[2::3]):
    sys.argv = ["convert_hf_to_gguf.py", model, "--outfile", out, "--outtype", kind]
    converter.main()
