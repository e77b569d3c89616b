package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// fakeRuntimes are programs that print what llama-batched-bench prints, copy what llama-quantize converts, and make the
// directory that openvino-export makes.
func fakeRuntimes(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell scripts")
	}
	const bench = `#!/bin/sh
test -f "$2" || test -f "$2/openvino_model.bin" || exit 1
echo "|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |"
echo "|   512 |      1 |    1 |    513 |   10.000 |    51.25 |    0.100 |    12.50 |   10.100 |    50.79 |"
`
	quantize := map[string]string{
		"llama-quantize": "#!/bin/sh\nwhile [ $# -gt 3 ]; do shift; done\ncp \"$1\" \"$2\"\n",
		"openvino-export": "#!/bin/sh\ntest -f \"$1/config.json\" -a \"$3\" = 128 &&\n" +
			"mkdir \"$2\" && echo weights >\"$2/openvino_model.bin\"\n",
	}
	dir := t.TempDir()
	for _, kind := range peerKinds {
		for file, text := range map[string]string{"version": "r1\n", kind.measure: bench,
			kind.quantize: quantize[kind.quantize]} {
			path := filepath.Join(dir, kind.name, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// TestBenchReport: a measurement of tiny models beside the other runtimes ends early, goes on, and is shown. With other
// versions it does not go on.
func TestBenchReport(t *testing.T) {
	measureLittle(t)
	runtimes, dir := fakeRuntimes(t), t.TempDir()
	file := filepath.Join(dir, "r.json")
	report := func(flags ...string) (int, string) {
		return inPlace(append([]string{"bench", "report", "-o", file, "--mini", "--rounds", "1", "--threads", "1",
			"--work", filepath.Join(dir, "work"), "--runtimes", runtimes, "--name", "This one"}, flags...)...)
	}
	if code, text := report("--time-limit", "1ns"); code != 1 || !strings.Contains(text, "0 turns of 47 are measured") {
		t.Fatal(code, text)
	}
	if code, text := report(); code != 0 || strings.Contains(text, "making") {
		t.Fatal(code, text)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if code, text := report(); code != 0 {
		t.Fatal(code, text)
	}
	if after, err := os.ReadFile(file); err != nil || string(before) != string(after) {
		t.Error("a complete report is measured again", err)
	}
	code, table := inPlace("bench", "chart", dir)
	for _, want := range []string{"### This one\n", "; ik_llama.cpp r1; llama.cpp r1; openvino r1",
		"| bitnet-2b4t | prompt of 16 | ik_llama.cpp | IQ2_BN | Q6_K | 51.2 | 51.2–51.2, 1 | ",
		"| bitnet-2b4t | generate 32 × 2 | llama.cpp | TQ2_0 | Q6_K | 12.5 | ",
		"| bitnet-2b4t | generate 4 | lowpack | vnni4i | int6 | ", "| bitnet-2b4t | verify, GB/s | lowpack |",
		"| llama-3.2-1b | generate 4 | lowpack | int4 group 32 | int6 | ",
		"| llama-3.2-1b | generate 8 × 2 | openvino | int4 group 128 | int8 | 12.5 | "} {
		if code != 0 || !strings.Contains(table, want) {
			t.Errorf("%d: no %q in\n%s", code, want, table)
		}
	}
	if err := os.WriteFile(filepath.Join(runtimes, llamaCPP, "version"), []byte("r2"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, text := report(); code != 1 || !strings.Contains(text, "list of runtimes and their versions") {
		t.Error(code, text)
	}
	if err := os.Remove(filepath.Join(runtimes, llamaCPP, "llama-quantize")); err != nil {
		t.Fatal(err)
	}
	if code, text := report(); code == 0 || !strings.Contains(text, "llama-quantize") {
		t.Error(code, text)
	}
	if code, text := inPlace("bench", "report", "-o", file, "--runtimes", t.TempDir()); code != 1 ||
		!strings.Contains(text, "packaging/runtimes") {
		t.Error(code, text)
	}
}

// TestBuildRuntimes: packaging/runtimes builds what bench report finds, once, and says what is missing.
func TestBuildRuntimes(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	sources, to, bin := filepath.Join(dir, "sources"), filepath.Join(dir, "to"), filepath.Join(dir, "bin")
	for path, text := range map[string]string{
		filepath.Join(sources, llamaCPP, "CMakeLists.txt"): "",
		filepath.Join(bin, "cmake"): `#!/bin/sh
echo "$*" >>"$LOG"
test "$1" = -S || { mkdir -p "$2/bin"; touch "$2/bin/llama-batched-bench" "$2/bin/llama-quantize"; }
`,
		filepath.Join(bin, "git"): "#!/bin/sh\necho 12345678\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(dir, "log")
	build := func(args ...string) (string, error) {
		cmd := exec.Command("bash", append([]string{"../../packaging/runtimes"}, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LOG="+log)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for range 2 {
		if out, err := build(sources, to); err != nil {
			t.Fatal(out, err)
		}
	}
	peers, err := findPeers(to)
	if err != nil || len(peers) != 1 || peers[0].runtime != llamaCPP || peers[0].version != "12345678" {
		t.Error(peers, err)
	}
	if text, err := os.ReadFile(log); err != nil || strings.Count(string(text), "--target llama-batched-bench") != 1 {
		t.Errorf("built twice: %s, %v", text, err)
	}
	if out, err := build(bin, to); err == nil || !strings.Contains(out, "neither llama.cpp nor ik_llama.cpp") {
		t.Error(out, err)
	}
	if out, err := build(); err == nil || !strings.Contains(out, "packaging/runtimes SOURCES DIR builds") {
		t.Error(out, err)
	}
}
