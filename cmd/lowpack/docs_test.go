package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestContinuousIntegrationExamples runs the commands of docs/CI.md on a small checkpoint.
func TestContinuousIntegrationExamples(t *testing.T) {
	t.Parallel()
	blocks := codeBlocks(t, "../../docs/CI.md")
	if len(blocks["sh"]) != 3 || len(blocks["make"]) != 1 || len(blocks["yaml"]) != 2 {
		t.Fatalf("docs/CI.md has other examples than this test knows: %d sh, %d make, %d yaml", len(blocks["sh"]),
			len(blocks["make"]), len(blocks["yaml"]))
	}
	t.Run("shell", func(t *testing.T) {
		j := newJob(t)
		for _, script := range blocks["sh"] {
			j.run(script)
		}
		j.made("model.safetensors", "report.html", "provenance.json", "verify.xml", "plan.json")
		j.called("cosign verify-blob-attestation --bundle model.sigstore.json")
	})
	t.Run("make", func(t *testing.T) {
		j := newJob(t)
		j.write("Makefile", blocks["make"][0])
		j.run("make model.safetensors.sha256")
		j.made("model.safetensors", "report.html", "provenance.json", "verify.xml", "model.safetensors.sha256")
		if out := j.run("make model.safetensors.sha256"); !strings.Contains(out, "up to date") {
			t.Errorf("made twice: %s", out)
		}
	})
	t.Run("GitHub", func(t *testing.T) { github(t, blocks["yaml"][0]) })
	t.Run("GitLab", func(t *testing.T) { gitlab(t, blocks["yaml"][1]) })
}

// TestSigningExamples runs the commands of docs/SIGNING.md.
func TestSigningExamples(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip(err)
	}
	blocks := codeBlocks(t, "../../docs/SIGNING.md")
	if len(blocks["sh"]) != 1 {
		t.Fatalf("docs/SIGNING.md has %d examples", len(blocks["sh"]))
	}
	j := newJob(t)
	if out := j.run(blocks["sh"][0]); !strings.Contains(out, "digest  signature") {
		t.Error(out)
	}
	j.made("model.safetensors.sig")
	j.called("model_signing verify key model.safetensors --signature model.safetensors.sig")
}

// TestRecording compares the recording of the README with the output of the commands: the coverage, which is the same
// on every machine, and the text.
func TestRecording(t *testing.T) {
	t.Parallel()
	svg, err := os.ReadFile("../../docs/recording.svg")
	if err != nil {
		t.Fatal(err)
	}
	var drawing struct {
		Groups []struct {
			Lines []string `xml:"text"`
		} `xml:"g"`
	}
	if err := xml.Unmarshal(svg, &drawing); err != nil || len(drawing.Groups) != 3 {
		t.Fatalf("%d commands: %v", len(drawing.Groups), err)
	}
	shows := func(command int, want string) {
		t.Helper()
		words := strings.Join(strings.Fields(strings.Join(drawing.Groups[command].Lines, " ")), " ")
		if want = strings.Join(strings.Fields(want), " "); want == "" || !strings.Contains(words, want) {
			t.Errorf("docs/recording.svg does not show %q (make recording)", want)
		}
	}
	source, file := "../../testdata/tiny-bitnet", filepath.Join(t.TempDir(), "tiny.safetensors")
	if out := command(t, "convert", source, "--layout", "vnni4i", "-o", file); out.code != 0 {
		t.Fatal(out.out)
	}
	verified := command(t, "verify", file, "--source", source).out
	coverage := verified[max(0, strings.Index(verified, "coverage: ")):]
	coverage, _, _ = strings.Cut(coverage, "\n")
	shows(1, coverage)
	prompt := "Once upon a time there was a little girl"
	text, _, _ := strings.Cut(command(t, "run", file, "-n", "60", "-p", prompt).out, "\n\nloaded in")
	shows(2, `-p "`+prompt+`" `+text)
}

// TestModels checks docs/MODELS.md against the code: each code format is read or refused as its table says. (The table
// of families is generated.)
func TestModels(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/MODELS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Formats of quantized weights\n")
	rows := map[string]string{} // by the word for how they are handled
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			rows[strings.TrimSpace(cells[2])] += cells[1]
		}
	}
	compressed := func(format, weights string) string {
		return fmt.Sprintf(`"quant_method":"compressed-tensors","format":%q,
			"config_groups":{"g":{"targets":["Linear"],"weights":{%s}}}`, format, weights)
	}
	const fours = `"num_bits":4,"type":"int","strategy":"group","group_size":32`
	for _, c := range []struct {
		name, config string
		read         bool
	}{
		{"GPTQ", `"quant_method":"gptq"`, true},
		{"AutoRound", `"quant_method":"auto-round"`, true},
		{"AWQ GEMM", `"quant_method":"awq"`, true},
		{"pack-quantized", compressed("pack-quantized", fours), true},
		{"int-quantized", compressed("int-quantized", fours), true},
		{"mxfp4", compressed("mxfp4-pack-quantized",
			`"num_bits":4,"type":"float","strategy":"group","group_size":32`), true},
		{"MXFP4", `"quant_method":"mxfp4"`, true},
		{"bitsandbytes int8", `"quant_method":"bitsandbytes","load_in_8bit":true`, true},
		{"nf4", `"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"nf4"`, true},
		{"fp4", `"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"fp4"`, true},
		{"`fp8`", `"quant_method":"fp8"`, true},
		{"`fbgemm_fp8`", `"quant_method":"fbgemm_fp8"`, true},
		{"float-quantized", compressed("float-quantized", `"num_bits":8,"type":"float","strategy":"channel"`), true},
		{"NVFP4", compressed("nvfp4-pack-quantized",
			`"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16`), true},
		{"gptq_p", `"quant_method":"gptq","format":"gptq_p"`, false},
		{"GEMV", `"quant_method":"awq","version":"gemv"`, true},
		{"AWQ GEMV_FAST", `"quant_method":"awq","version":"gemv_fast"`, false},
		{"TorchAO (`torchao`)", `"quant_method":"torchao","quant_type":{"default":{"_type":"IntxWeightOnlyConfig",` +
			`"_version":2,"_data":{}}}`, true},
		{"8-bit floats of TorchAO", `"quant_method":"torchao","quant_type":{"default":{"_type":` +
			`"Float8WeightOnlyConfig","_version":2,"_data":{}}}`, true},
		{"TorchAO for kernels of GPUs (`Int4WeightOnlyConfig`, MX, NVFP4)", `"quant_method":"torchao","quant_type":` +
			`{"default":{"_type":"Int4WeightOnlyConfig","_version":2,"_data":{}}}`, false},
		{"`quant_method` `quanto`", `"quant_method":"quanto"`, false},
		{"ModelOpt (`modelopt`)", `"quant_method":"modelopt","quant_algo":"FP8"`, true},
		{"ModelOpt with NVFP4_AWQ and W4A8_NVFP4_FP8, MLX", `"quant_method":"modelopt","quant_algo":"NVFP4_AWQ"`, true},
		{"other forms of ModelOpt", `"quant_method":"modelopt","quant_algo":"W4A8_AWQ"`, false},
		{"W4A16_AWQ", `"quant_method":"modelopt","quant_algo":"W4A16_AWQ"`, true},
		{"W8A16", `"quant_method":"modelopt","quant_algo":"W8A16"`, true},
		{"ModelOpt MXFP4", `"quant_method":"modelopt","quant_algo":"mxfp4"`, true},
		{"MXFP8 (`mxfp8`)", `"quant_method":"mxfp8","weight_block_size":[1,32]`, true},
		{"Metal (`metal`)", `"quant_method":"metal"`, true},
		{"AMD Quark (`quark`)", `"quant_method":"quark","global_quant_config":{"weight":{"dtype":"fp6_e3m2","qscheme":` +
			`"per_group","group_size":32,"scale_format":"e8m0"}}`, true},
		{"other types of Quark", `"quant_method":"quark","global_quant_config":{"weight":{"dtype":"mx"}}`, false},
		{"`gemma` and `nvfp4`", `"quant_method":"gemma"`, false},
		{"AQLM", `"quant_method":"aqlm"`, false},
		{"HQQ", `"quant_method":"hqq","quant_config":{"weight_quant_params":{"nbits":4}}`, true},
	} {
		_, err := quantized.Parse([]byte(`{"dtype":"bfloat16","quantization_config":{`+c.config+`}}`), nil)
		word := map[bool]string{true: "yes", false: "refused"}[c.read]
		if !strings.Contains(rows[word], c.name) || (err == nil) != c.read {
			t.Errorf("%s: %v; docs/MODELS.md should say that it is read: %t", c.name, err, c.read)
		}
	}
}

func github(t *testing.T, text string) {
	type step struct{ Name, Run, Uses string }
	var workflow struct {
		Jobs struct{ Pack, Reproduce struct{ Steps []step } }
	}
	if err := yaml.Unmarshal([]byte(text), &workflow); err != nil {
		t.Fatal(err)
	}
	outputs := ""
	for _, steps := range [][]step{workflow.Jobs.Pack.Steps, workflow.Jobs.Reproduce.Steps} {
		j := newJob(t)
		sha, _ := strings.CutPrefix(strings.TrimSpace(outputs), "sha256=")
		j.env = append(j.env, "GITHUB_OUTPUT=output", "GITHUB_STEP_SUMMARY=summary", "SHA256="+sha)
		runs := 0
		for _, s := range steps {
			if s.Run != "" {
				j.run("set -e\n" + s.Run)
				runs++
			}
		}
		if runs < 3 {
			t.Errorf("%d steps were run", runs)
		}
		j.called("pipx run --spec huggingface_hub hf download")
		j.made("model.safetensors")
		if outputs == "" {
			j.made("report.html", "predicate.json", "verify.xml", "summary")
			outputs = j.read("output")
		}
	}
}

func gitlab(t *testing.T, text string) {
	var pipeline map[string]struct {
		Script    []string
		Artifacts struct {
			Paths   []string
			Reports map[string]string
		}
	}
	if err := yaml.Unmarshal([]byte(text), &pipeline); err != nil {
		t.Fatal(err)
	}
	job, ok := pipeline["packed-model"]
	if !ok || len(job.Script) < 5 {
		t.Fatalf("pipeline %+v", pipeline)
	}
	j := newJob(t)
	j.env = append(j.env, "CI_JOB_TOKEN=token", "CI_API_V4_URL=https://gitlab.example/api/v4", "CI_PROJECT_ID=7",
		"CI_COMMIT_SHORT_SHA=abc")
	for _, line := range job.Script {
		j.run("set -e\n" + line)
	}
	j.made("provenance.json", "report.html", job.Artifacts.Reports["junit"])
	j.called("cosign attest-blob --yes --statement provenance.json")
	j.called("curl --fail --header JOB-TOKEN: token --upload-file model.safetensors " +
		"https://gitlab.example/api/v4/projects/7/packages/generic/model/abc/model.safetensors")
}

// codeBlocks collects the fenced blocks of a page by language.
func codeBlocks(t *testing.T, path string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]string{}
	for _, m := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllSubmatch(text, -1) {
		blocks[string(m[1])] = append(blocks[string(m[1])], string(m[2]))
	}
	return blocks
}

// job is a fresh directory with a checkpoint in it, and stand-ins for programs of a CI machine that may be missing
// here.
type job struct {
	t   *testing.T
	dir string
	env []string
}

func newJob(t *testing.T) *job {
	t.Helper()
	for _, tool := range []string{"sh", "jq", "make", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the examples need %s: %v", tool, err)
		}
	}
	j := &job{t: t, dir: t.TempDir()}
	tinymodel.Miniature(t, "bitnet-2b4t-bf16", filepath.Join(j.dir, "checkpoint"))
	stand := t.TempDir()
	for _, tool := range []string{"go", "pipx", "apt-get", "cosign", "curl", "model_signing"} {
		script := "#!/bin/sh\necho " + tool + ` "$@" >>calls` + "\n"
		if err := os.WriteFile(filepath.Join(stand, tool), []byte(script), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	j.env = append(os.Environ(), "PATH="+stand+string(os.PathListSeparator)+os.Getenv("PATH"),
		"MODEL=checkpoint", "SIGNER=ci@example.com", "ISSUER=https://issuer.example")
	return j
}

// run runs a script, which must succeed, and returns its output.
func (j *job) run(script string) string {
	j.t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = j.dir, j.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		j.t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

func (j *job) write(name, text string) {
	j.t.Helper()
	if err := os.WriteFile(filepath.Join(j.dir, name), []byte(text), 0o666); err != nil {
		j.t.Fatal(err)
	}
}

func (j *job) read(name string) string {
	j.t.Helper()
	text, err := os.ReadFile(filepath.Join(j.dir, name))
	if err != nil {
		j.t.Fatal(err)
	}
	return string(text)
}

// made requires files that are not empty.
func (j *job) made(names ...string) {
	j.t.Helper()
	for _, name := range names {
		if len(bytes.TrimSpace([]byte(j.read(name)))) == 0 {
			j.t.Errorf("%s is empty", name)
		}
	}
}

// called requires that a stand-in was called with these arguments.
func (j *job) called(line string) {
	j.t.Helper()
	if calls := j.read("calls"); !strings.Contains(calls, line) {
		j.t.Errorf("%q was not called, but\n%s", line, calls)
	}
}
