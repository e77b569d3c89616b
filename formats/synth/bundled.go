package synth

import (
	"embed"
	"fmt"
	"path"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

//go:embed configs
var configs embed.FS

// Like is a published model whose configuration is bundled. Sizes are from its config.json or, where that was not
// available, from public tables: bonsai-8b has the shape of Qwen3-8B, and the context and rotary scaling that its GGUF
// declares; qwen3-8b-gptq what GPTQModel declares for that model. TestPublishedData compares numbers of tensors and
// bytes with published ones.
type Like struct {
	Name    string
	File    string  // in configs, without .json
	Weights Weights // if config.json does not declare them
	Zeros   float64 // share of zeros in its ternary weights, if known and different from the default
	Stop    []int   // end-of-text tokens that only its generation_config.json lists

	EqualHead bool // its head is stored separately but equals the embedding
}

// Likes lists the bundled configurations.
func Likes() []Like {
	list := []Like{
		{Name: "bitnet-2b4t", Stop: []int{128009}},
		{Name: "bitnet-2b4t-bf16", Stop: []int{128009}},
		{Name: "bitnet-large"}, {Name: "bitnet-xl"}, {Name: "bitnet-3b"},
		{Name: "llama3-8b", Zeros: 0.357},
		{Name: "falcon3-1b", Zeros: 0.297}, {Name: "falcon3-3b"}, {Name: "falcon3-7b"}, {Name: "falcon3-10b"},
	}
	for _, size := range []string{"99m", "190m", "390m", "560m", "830m", "1.1b", "1.5b", "2.4b", "3.9b"} {
		list = append(list, Like{Name: "trilm-" + size, Weights: Ternary})
	}
	for _, w := range []Weights{Levels1, Levels158, Levels2, Levels3, Levels4} {
		name := "paretoq-125m-" + strings.TrimPrefix(string(w), "levels-") + "bit"
		list = append(list, Like{Name: name, File: "paretoq-125m", Weights: w, EqualHead: true})
	}
	for _, name := range []string{
		"llama-3-8b", "llama-3.1-8b", "llama-3.2-1b", "llama-3.2-3b", "smollm2-135m", "mobilellm-125m",
		"mobilellm-125m-layer-share", "mistral-7b-v0.1", "mistral-7b-v0.3",
		"qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-1.5b-yarn", "qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "phi-3-mini-4k",
		"phi-3-mini-128k",
		"gemma-2b", "gemma-2-2b", "gemma-3-270m", "gemma-3-1b",
		"smollm3-3b", "granite-3.3-2b", "olmo-2-1b", "olmo-3-7b", "exaone-4.0-1.2b", "hunyuan-1.8b", "minicpm-2b",
		"qwen3-30b-a3b", "qwen1.5-moe-a2.7b", "mixtral-8x7b-v0.1", "olmoe-1b-7b", "granite-3.1-1b-a400m", "gpt-oss-20b",
		"seed-oss-36b", "ministral-8b", "ministral-3-3b", "cwm-32b", "afm-4.5b", "ernie-4.5-0.3b", "helium-1-2b",
		"glm-4-9b", "glm-4-9b-0414", "minitron-4b", "starcoder2-3b", "stablelm-2-1.6b",
		"stablelm-2-12b", "olmo-7b-0424", "command-r-v01", "command-r-plus", "command-r7b", "apertus-8b", "phi-2",
		"dots.llm1", "hunyuan-a13b", "glm-4.5", "ernie-4.5-21b-a3b",
		"deepseek-v2-lite", "deepseek-v3",
		"qwen3-8b-gptq", "lfm2-1.2b", "granite-4.0-h-1b", "bamba-9b", "lfm2-8b-a1b",
		"granite-4.0-h-tiny", "gpt2", "pythia-160m", "opt-125m", "bloom-560m",
		"qwen3-next-80b-a3b", "qwen3.5-9b", "qwen3.5-35b-a3b", "phi-3.5-moe", "falcon-h1-0.5b",
		"mamba-codestral-7b", "llama-4-scout", "gemma-3n-e2b", "minimax-m2",
		"mamba-130m", "falcon-mamba-7b", "jamba-v0.1", "gemma-4-e2b", "gemma-4-26b-a4b", "gemma-4-12b",
	} {
		list = append(list, Like{Name: name})
	}
	return append(list, Like{Name: "bonsai-8b", Weights: Groups1})
}

// Find returns the options of a bundled configuration.
func Find(name string) (Options, error) {
	var names []string
	for _, l := range Likes() {
		if l.Name == name {
			return l.options()
		}
		names = append(names, l.Name)
	}
	return Options{}, fmt.Errorf("%w: no configuration %q is bundled; there are %s", pack.ErrUnsupported, name,
		strings.Join(names, ", "))
}

func (l Like) options() (Options, error) {
	if l.File == "" {
		l.File = l.Name
	}
	config, err := configs.ReadFile(path.Join("configs", l.File+".json"))
	return Options{Config: config, Stop: l.Stop, Weights: l.Weights, Zeros: l.Zeros, EqualHead: l.EqualHead}, err
}
