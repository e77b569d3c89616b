package main

import "slices"

// foreignCommands maps commands of ollama, llama.cpp, vLLM and the hub's own program to lowpack's equivalents.
var foreignCommands = map[string]string{
	"generate": "run", "chat": "run", "complete": "run", "cli": "run", "llama-cli": "run",
	"start": "serve", "server": "serve", "llama-server": "serve", "api_server": "serve", "run-batch": "batch",
	"quantize": "convert", "llama-quantize": "convert", "create": "convert", "import": "convert",
	"download": "pull", "fetch": "pull", "get": "pull", "dl": "pull",
	"ls": "list", "ps": "list", "models": "list", "scan-cache": "list",
	"remove": "rm", "delete": "rm", "del": "rm", "delete-cache": "rm",
	"show": "inspect", "info": "inspect", "perplexity": "eval", "llama-perplexity": "eval",
	"llama-bench": "bench", "benchmark": "bench", "check": "verify",
	"detokenize": "tokenize --decode", "llama-tokenize": "tokenize",
}

// foreignFlags maps flags of these programs to lowpack's names, most likely first.
var foreignFlags = map[string][]string{
	"m": {"FILE"}, "model": {"FILE"}, "model-path": {"FILE"}, "models-dir": {"DIR in the place of FILE"},
	"hf-repo": {"ORG/NAME in the place of FILE"}, "hf": {"ORG/NAME in the place of FILE"},
	"p":         {"--prefill"},
	"n":         {"--tokens", "--generate", "--output-len"},
	"n-prompt":  {"--prefill"},
	"n-gen":     {"--generate"},
	"n-predict": {"--tokens"}, "predict": {"--tokens"}, "max-tokens": {"--tokens"}, "max-new-tokens": {"--tokens"},
	"num-predict": {"--tokens"}, "c": {"--context", "--window"}, "ctx-size": {"--context", "--window"},
	"max-model-len": {"--context"}, "num-ctx": {"--context"}, "t": {"--threads"}, "nproc": {"--threads"},
	"temp": {"--temperature"}, "repeat-penalty": {"--repetition-penalty"}, "s": {"--seed"},
	"cnv": {"--chat"}, "conversation": {"--chat"}, "i": {"--chat"}, "interactive": {"--chat"},
	"sys": {"--system"}, "system-prompt": {"--system"}, "f": {"--file"}, "text": {"--file"}, "input": {"--file"},
	"ctk": {"--kv-cache-type"}, "cache-type-k": {"--kv-cache-type"}, "cache-type-v": {"--kv-cache-type"},
	"kv-cache-dtype": {"--kv-cache-type"}, "np": {"--parallel"}, "max-num-seqs": {"--parallel"},
	"served-model-name": {"--model-name"}, "alias": {"--model-name"}, "md": {"--draft"}, "model-draft": {"--draft"},
	"reasoning": {"--think"}, "outfile": {"-o"}, "outtype": {"--quant"}, "quantization": {"--quant"}, "q": {"--quant"},
	"force": {"--yes"}, "silent": {"--quiet"}, "log-disable": {"--quiet"}, "v": {"--verbose"}, "debug": {"--verbose"},
	"ngl": {onlyCPU}, "n-gpu-layers": {onlyCPU}, "gpu-layers": {onlyCPU}, "num-gpu": {onlyCPU}, "device": {onlyCPU},
	"main-gpu": {onlyCPU}, "tensor-parallel-size": {onlyCPU}, "gpu-memory-utilization": {onlyCPU}, "fa": {onlyCPU},
	"flash-attn": {onlyCPU},
}

// onlyCPU answers flags about GPUs.
const onlyCPU = "left out, since models run on the CPU alone"

// foreignFlag returns a command's name for a flag of another program; "" if it has none.
func foreignFlag(name string, known []string) string {
	for _, own := range foreignFlags[name] {
		if own[0] != '-' || slices.Contains(known, own) {
			return own
		}
	}
	return ""
}
