package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// modelsOfTest fills empty caches: a packed file, a model of the hub, one of a kind that is not known, and a broken
// one.
func modelsOfTest(t *testing.T) (cache, packedFile string) {
	t.Helper()
	cache = serveTiny(t)
	t.Setenv("HF_HUB_OFFLINE", "1")
	commit := strings.Repeat("0123456789", 4)
	for _, name := range []string{"acme--tiny", "acme--clip", "acme--half"} {
		folder := filepath.Join(cache, "hf", "hub", "models--"+name)
		tiny := os.DirFS(shared.Testdata(t, "tiny-bitnet"))
		if err := os.CopyFS(filepath.Join(folder, "snapshots", commit), tiny); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "refs", "main"), commit)
	}
	clip := filepath.Join(cache, "hf/hub/models--acme--clip/snapshots", commit, "config.json")
	write(t, clip, `{"architectures":["CLIPModel"]}`)
	half := filepath.Join(cache, "hf/hub/models--acme--half/snapshots", commit, "model.safetensors")
	if err := os.Truncate(half, 100); err != nil {
		t.Fatal(err)
	}
	data, err := smallPacked()
	if err != nil {
		t.Fatal(err)
	}
	packedFile = filepath.Join(cache, "lowpack", "packed", "models--acme--tiny-0123456789abcdef.safetensors")
	write(t, packedFile, string(data))
	return cache, packedFile
}

func write(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// lastColumn matches the time column.
var lastColumn = regexp.MustCompile(` (20\d\d-|modified)`)

// namesIn returns the first words of the lines of a table.
func namesIn(text string) (list []string) {
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, " ")
		list = append(list, name)
	}
	return list
}

// TestList: every model of the caches is listed, a broken one with the reason, one of an unknown kind only on request.
func TestList(t *testing.T) {
	cache, file := modelsOfTest(t)
	code, out, text := mainOf("list")
	want := []string{"name", "acme/half", "acme/tiny", "tiny-0123456789abcdef", "acme/half:"}
	if got := namesIn(out); code != 0 || text != "" || !slices.Equal(got, want) {
		t.Errorf("%d, %q, want %q\n%s%s", code, got, want, out, text)
	}
	lines := strings.Split(out, "\n")
	for _, line := range lines[:4] {
		at := lastColumn.FindStringIndex(line)
		if at == nil || at[0] != strings.Index(lines[0], " modified") {
			t.Errorf("the columns do not line up:\n%s", out)
		}
	}
	const reason = `acme/clip: config.json: unsupported: model architecture "CLIPModel"`
	if _, all, _ := mainOf("list", "--verbose"); !strings.Contains(all, reason) {
		t.Error(all)
	}
	var list []listed
	_, out, _ = mainOf("list", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 3 {
		t.Fatal(err, out)
	}
	if l := list[0]; l.Error == "" || strings.Contains(l.Error, cache) || l.Kind != "" {
		t.Errorf("%+v", l)
	}
	l := list[1]
	if l.Kind != "checkpoint" || l.Family != "bitnet" || l.Parameters == 0 || l.Weights != "BF16" || l.Bits < 16 {
		t.Errorf("%+v", l)
	}
	if l := list[2]; l.Kind != "packed file" || l.Path != file || l.Bytes == 0 || l.Modified.IsZero() {
		t.Errorf("%+v", l)
	}
}

// TestListFolder: of a folder, files and checkpoints; of a checkpoint, itself.
func TestListFolder(t *testing.T) {
	serveTiny(t)
	if code, out, text := mainOf("list"); code != 0 || out != "" || !strings.Contains(text, "no models yet") {
		t.Error(code, out, text)
	}
	if code, out, _ := mainOf("list", "--json"); code != 0 || strings.TrimSpace(out) != "[]" {
		t.Error(code, out)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "tiny"), os.DirFS(shared.Testdata(t, "tiny-bitnet"))); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "page.safetensors"), "<!DOCTYPE html>\n")
	write(t, filepath.Join(dir, "x-00001-of-00002.gguf"), "GGUF")
	write(t, filepath.Join(dir, "x-00002-of-00002.gguf"), "GGUF")
	write(t, filepath.Join(dir, "notes.txt"), "no model")
	_, out, _ := mainOf("list", dir)
	folder := filepath.Join(dir, "tiny") + " "
	for _, want := range []string{"page.safetensors: corrupt: ", "x-00001-of-00002.gguf: ", folder} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "00002-of") || strings.Contains(out, "notes.txt") {
		t.Error(out)
	}
	if _, out, _ := mainOf("list", filepath.Join(dir, "tiny")); strings.Count(out, "\n") != 2 {
		t.Error(out)
	}
	if code, _, text := mainOf("list", filepath.Join(dir, "none")); code != 1 || !strings.Contains(text, "none") {
		t.Error(code, text)
	}
}

// TestNames: listed names are accepted in place of files; a path has priority, and an ambiguous name is refused.
func TestNames(t *testing.T) {
	cache, file := modelsOfTest(t)
	t.Chdir(cache)
	for _, name := range []string{"tiny-0123456789abcdef", "tiny"} {
		for _, args := range [][]string{
			{"inspect", name}, {"verify", name, "--level", "digest"}, {"tokenize", name, "x"}, {"run", name, "-p", "a"},
			{"repack", name, "--layout", "i2", "-o", "out"}, {"unpack", name, "-o", "dir"},
			{"export", name, "--to", "gguf", "--force", "-o", "m.gguf"}, {"verify", "m.gguf", "--source", name},
		} {
			code, out, text := mainOf(args...)
			if strings.Contains(text, "not exist") || strings.Contains(text, "no such file") {
				t.Errorf("%q: %d\n%s%s", args, code, out, text)
			}
			os.RemoveAll("dir")
		}
	}
	mustEndIn(t, 2, "which is read", "repack", "tiny", "--layout", "i2", "-o", file)
	mustEndIn(t, 1, "(did you mean tiny?); lowpack list", "verify", "tinny")
	mustEndIn(t, 1, "(did you mean acme/tiny?)", "run", "acme/tinny", "-p", "x")
	write(t, "tiny", "<!DOCTYPE html>\n")
	mustEndIn(t, 1, "HTML", "verify", "tiny")
	os.Remove("tiny")
	write(t, filepath.Join(filepath.Dir(file), "tiny-ffffffffffffffff.safetensors"), "")
	const both = "tiny means 2 models; name one of them: tiny-0123456789abcdef, tiny-ffffffffffffffff"
	for _, args := range [][]string{{"verify", "tiny"}, {"run", "tiny", "-p", "x"}, {"rm", "tiny", "--yes"}} {
		mustEndIn(t, 2, both, args...)
	}
}

func mustEndIn(t *testing.T, want int, words string, args ...string) {
	t.Helper()
	if code, out := inPlace(args...); code != want || !strings.Contains(out, words) {
		t.Errorf("%q: exit code %d, want %d and %q\n%s", args, code, want, words, out)
	}
}

// TestRm: rm removes models of the caches, and nothing else.
func TestRm(t *testing.T) {
	cache, file := modelsOfTest(t)
	other := filepath.Join(cache, "other.safetensors")
	write(t, other, "123")
	link := filepath.Join(filepath.Dir(file), "link.safetensors")
	if err := os.Symlink(other, link); err != nil {
		t.Skip(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, words string
		code        int
	}{
		{"tiny", "--yes removes without that", 2},
		{"", "rm needs the names of models", 2},
		{"tinny --yes", "there is no model tinny in the caches (did you mean tiny?)", 1},
		{other + " --yes", "is a file or folder; lowpack rm removes models of the caches", 2},
		{"tiny acme/none --yes", "there is no model acme/none in the caches", 1},
		{"link tiny tiny -y", "removed 2 models: " + size(info.Size())[:1], 0},
		{"acme/tiny --yes", "removed 1 model: 97", 0},
	} {
		mustEndIn(t, c.code, c.words, append([]string{"rm"}, strings.Fields(c.args)...)...)
		if _, err := os.Stat(file); (err == nil) == (c.code == 0) {
			t.Errorf("rm %s: %v", c.args, err)
		}
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(link); err == nil {
		t.Error("the link is still there")
	}
	if _, out, _ := mainOf("list"); !slices.Equal(namesIn(out), []string{"name", "acme/half", "acme/half:"}) {
		t.Error(out)
	}
}

// TestRmInUse: a model that another process has open is not removed.
func TestRmInUse(t *testing.T) {
	_, file := modelsOfTest(t)
	cmd := exec.CommandContext(untilDeadline(t), "tail", "-f", file)
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		t.Skip("no tail")
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	if _, err := out.Read(make([]byte, 1)); err != nil { // it has opened the file
		t.Fatal(err)
	}
	if len(usersOf([]string{file})) == 0 {
		t.Skip("this system does not tell who uses a file")
	}
	mustEndIn(t, 1, "tiny-0123456789abcdef is in use by process", "rm", "tiny", "--yes")
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// TestCompleteNames: model names are completed, also after a colon, where bash breaks words.
func TestCompleteNames(t *testing.T) {
	cache, _ := modelsOfTest(t)
	snapshot := filepath.Join(cache, "hf/hub/models--acme--tiny/snapshots", strings.Repeat("0123456789", 4))
	write(t, filepath.Join(snapshot, "tiny-Q4_0.gguf"), "GGUF")
	for line, want := range map[string]string{
		"run ti|":              "tiny-0123456789abcdef :files",
		"verify |":             "tiny-0123456789abcdef :files",
		"serve acme/t|":        "acme/tiny acme/tiny:tiny-Q4_0.gguf :files",
		"serve acme/tiny : t|": "tiny-Q4_0.gguf :files",
		"serve acme/tiny :|":   "tiny-Q4_0.gguf :files",
		"serve acme/tiny:t|":   "acme/tiny:tiny-Q4_0.gguf :files",
		"rm t|":                "tiny-0123456789abcdef",
		"rm acme/h|":           "acme/half",
		"bench serve |":        "",
		"run f --draft t|":     "tiny-0123456789abcdef :files",
		"eval f --against |":   "tiny-0123456789abcdef acme/clip acme/half acme/tiny acme/tiny:tiny-Q4_0.gguf :files",
		"verify f --source=t|": "--source=tiny-0123456789abcdef :files",
		"verify f --source a|": "acme/clip acme/half acme/tiny acme/tiny:tiny-Q4_0.gguf :files",
		"list |":               ":dirs",
	} {
		line = strings.TrimSuffix(line, "|")
		if got := strings.Join(completed(strings.Split(line, " ")...), " "); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestQuiet: --quiet leaves results and errors, --verbose adds notes that need no action.
func TestQuiet(t *testing.T) {
	serveTiny(t)
	dir := shared.Testdata(t, "tiny-bitnet")
	target := filepath.Join(t.TempDir(), "m")
	if code, out := inPlace("convert", dir, "--golden", "none", "-o", target, "--quiet"); code != 0 || out != "" {
		t.Error(code, out)
	}
	code, out, text := mainOf("run", dir, "-p", "Once", "-n", "1", "--quiet")
	if code != 0 || out == "" || text != "" {
		t.Error(code, out, text)
	}
	mustEndIn(t, 2, "--verbose and --quiet cannot be combined", "run", dir, "-p", "Once", "--quiet", "--verbose")
	if code, _, text := mainOf("verify", filepath.Join(dir, "none"), "--quiet"); code != 1 || text == "" {
		t.Error(code, text)
	}
}
