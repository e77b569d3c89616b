"""hf.py CONVERTER (MODEL OUT TYPE)...: GGUF of Hugging Face checkpoints, without a vocabulary, by llama.cpp's convert_hf_to_gguf.py, which lies
in the folder CONVERTER."""
import sys

folder, jobs = sys.argv[1], sys.argv[2:]
sys.path.insert(0, folder)
import convert_hf_to_gguf as converter  # noqa: E402

named = converter.get_model_class


def vocabulary(self):  # without tokens, but with the one that ends a text: configurations of some families have others
    self.gguf_writer.add_tokenizer_model("none")
    ends = self.hparams.get("eos_token_id")
    if ends is not None:
        self.gguf_writer.add_eos_token_id(ends[0] if isinstance(ends, list) else ends)


def bare(*args, **kwargs):
    cls = named(*args, **kwargs)
    return type(cls.__name__, (cls,), {"set_vocab": vocabulary, "model_arch": cls.model_arch})


converter.get_model_class = bare
for model, out, kind in zip(jobs[::3], jobs[1::3], jobs[2::3]):
    sys.argv = ["convert_hf_to_gguf.py", model, "--outfile", out, "--outtype", kind]
    converter.main()
