#!/usr/bin/env python3
"""Measures conversion and verification of one model shape, lowpack beside llama-quantize of ik_llama.cpp, in turn.

    docs/benchmarks/conversion.py WORK CPU ISA [LLAMA_QUANTIZE]

Each call does one round, adds its times to WORK/times.json and prints the machine of docs/benchmarks/conversion.json that all
rounds make. WORK needs 25 GB; models are made there by the first call. Targets go to $TARGET, /dev/shm if unset. LLAMA_QUANTIZE is the
program in the Python package ik-llama-cpp-python.
"""

import datetime, json, os, pathlib, statistics, subprocess, sys, time

if len(sys.argv) not in (4, 5):
    sys.exit(__doc__)
work, cpu, isa = pathlib.Path(sys.argv[1]).absolute(), sys.argv[2], sys.argv[3]
peer = pathlib.Path(sys.argv[4]).absolute() if len(sys.argv) == 5 else None
root = pathlib.Path(__file__).resolve().parents[2]
work.mkdir(parents=True, exist_ok=True)
lowpack, floats, codes, plain, gguf = (str(work / n) for n in ("lowpack", "bf16", "u8", "plain", "f16.gguf"))
target = os.path.join(os.environ.get("TARGET", "/dev/shm"), "lowpack-conversion")
env = dict(os.environ, LD_LIBRARY_PATH=str(peer.parent.parent / "lib")) if peer else None


def call(*command):
    done = subprocess.run(command, cwd=root, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.returncode}\n{done.stdout[-2000:]}")
    return done.stdout


def make(path, *command):
    if not os.path.exists(path):
        call(*command)


call("go", "build", "-o", lowpack, "./cmd/lowpack")
make(floats, lowpack, "synth", "--like", "bitnet-2b4t-bf16", "-o", floats)
make(codes, lowpack, "synth", "--like", "bitnet-2b4t", "-o", codes)
if peer and not os.path.exists(gguf):
    make(plain, lowpack, "convert", floats, "--quant", "none", "--golden", "none", "-o", plain)
    make(gguf, lowpack, "export", plain, "--to", "gguf", "--dialect", "ik", "--force", "-o", gguf)
    os.remove(plain)

BF16, U8, VERIFY = "bf16, 4.83 GB", "uint8 codes, 1.18 GB", "verification"
none = ("--golden", "none")
convert = lambda source, *flags: [lowpack, "convert", source, "-o", target, *flags]
verify = lambda level: [lowpack, "verify", target, "--level", level]
steps = [  # what, test, head, command
    ("cat FILE >/dev/null", BF16, "–", ["cat", floats + "/model.safetensors"]),
    ("lowpack, no golden outputs", BF16, "bf16", convert(floats, *none)),
    ("lowpack, no golden outputs", BF16, "int8", convert(floats, *none, "--head", "int8")),
    ("lowpack, golden outputs", BF16, "int8", convert(floats, "--head", "int8")),
    ("lowpack, golden outputs", BF16, "bf16", convert(floats)),
    ("ik_llama.cpp", BF16, "F16", [str(peer), "--leave-output-tensor", "--token-embedding-type", "f16", gguf, target, "IQ2_BN", "2"]),
    ("ik_llama.cpp", BF16, "Q6_K", [str(peer), "--token-embedding-type", "q6_K", gguf, target, "IQ2_BN", "2"]),
    ("cat FILE >/dev/null", U8, "–", ["cat", codes + "/model.safetensors"]),
    ("lowpack, no golden outputs", U8, "bf16", convert(codes, *none)),
    ("lowpack, golden outputs", U8, "bf16", convert(codes)),
    ("lowpack verify --level digest", VERIFY, "bf16", verify("digest")),
    ("lowpack verify --level codes", VERIFY, "bf16", verify("codes")),
    ("lowpack verify", VERIFY, "bf16", [lowpack, "verify", target]),
]
if not peer:
    steps = [s for s in steps if s[0] != "ik_llama.cpp"]

raw = work / "times.json"
times = json.loads(raw.read_text()) if raw.exists() else {}
for source in (floats + "/model.safetensors", codes + "/model.safetensors"):
    subprocess.run(["cat", source], stdout=subprocess.DEVNULL, check=True)  # into the page cache
for what, test, head, command in steps:
    if test != VERIFY and os.path.exists(target):
        os.remove(target)
    out = subprocess.DEVNULL if command[0] == "cat" else subprocess.PIPE
    start = time.monotonic()
    done = subprocess.run(command, env=env, stdout=out, stderr=subprocess.STDOUT)
    took = time.monotonic() - start
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.returncode}\n{(done.stdout or b'')[-2000:].decode(errors='replace')}")
    times.setdefault("\t".join((what, test, head)), []).append(round(took, 2))
os.remove(target)
raw.write_text(json.dumps(times, indent=1))

revision = call("git", "describe", "--always", "--dirty").strip()
rows = {}
for key, list_ in times.items():
    what, test, head = key.split("\t")
    of = {"cat FILE >/dev/null": "–", "ik_llama.cpp": "ik-llama-cpp-python 0.1.5"}.get(what, revision)
    weights = {"cat FILE >/dev/null": "–", "ik_llama.cpp": "IQ2_BN"}.get(what, "vnni4i")
    row = rows.setdefault((what, head), {"runtime": what, "revision": of, "weights": weights, "head": head, "figures": {}})
    row["figures"][test] = {"median": round(statistics.median(list_), 2), "min": min(list_), "max": max(list_), "runs": len(list_)}
print(json.dumps({"cpu": cpu, "isa": isa, "date": datetime.date.today().isoformat(), "rows": list(rows.values())}, ensure_ascii=False, indent=1))
