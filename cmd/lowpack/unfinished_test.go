package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/internal/atomicfile"
)

// TestUnfinished: list shows what interrupted downloads have left, with size and what to do, also where there is no
// model; rm removes it and nothing else: the complete model of the name stays until it is named once more, and names
// that mean models of different names are refused.
func TestUnfinished(t *testing.T) {
	cache, file := modelsOfTest(t)
	digest := strings.Repeat("0123456789abcdef", 4)
	pulled := filepath.Join(filepath.Dir(file), ".other-"+digest+".safetensors.resume")
	write(t, pulled, strings.Repeat("x", 1500))
	blobs := filepath.Join(cache, "hf", "hub")
	part := filepath.Join(blobs, "models--acme--part", "blobs", "ab.incomplete")
	again := filepath.Join(blobs, "models--acme--tiny", "blobs", "cd.incomplete")
	write(t, part, strings.Repeat("x", 2500))
	write(t, again, "xyz")
	_, out, _ := mainOf("list")
	for _, want := range []string{
		"\nacme/part: unfinished, 2500 B: the same lowpack pull continues it, lowpack rm acme/part removes it and no " +
			"complete model\n",
		"\nacme/tiny: unfinished, 3 B: ",
		"\nother-" + digest + ": unfinished, 1500 B: the same lowpack pull continues it, lowpack rm other-" + digest +
			" removes it and no complete model\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	_, out, _ = mainOf("list", "--json")
	var list []listed
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 6 {
		t.Fatal(err, out)
	}
	if l := list[3]; l.Name != "acme/part" || l.Bytes != 2500 || l.Unfinished == "" || l.Error != "" || l.Kind != "" {
		t.Errorf("%+v", l)
	}
	mustEndIn(t, 1, "there is no model acme/par in the caches (did you mean acme/part?)", "rm", "acme/par", "--yes")
	mustEndIn(t, 0, "removed 2 unfinished downloads: 4000 bytes", "rm", "acme/part", "other", "--yes")
	const stays = "acme/tiny: this removes what an interrupted download has left; the complete model stays: " +
		"lowpack rm acme/tiny once more removes it"
	code, out, text := mainOf("rm", "acme/tiny", "acme/tiny", "--yes")
	if code != 0 || !strings.Contains(text, stays) || !strings.Contains(out, "removed 1 unfinished download: 3 bytes") {
		t.Errorf("%d: %s%s", code, out, text)
	}
	if _, out, _ := mainOf("list"); !strings.Contains(out, "\nacme/tiny ") || strings.Contains(out, "unfinished") {
		t.Error(out)
	}
	write(t, again, "xyz")
	mustEndIn(t, 0, "removed 1 model and 1 unfinished download: ", "rm", "acme/tiny", "tiny", "--yes")
	mustEndIn(t, 0, "removed 1 model: ", "rm", "acme/tiny", "--yes")
	if _, out, _ := mainOf("list"); strings.Contains(out, "unfinished") || strings.Contains(out, "acme/tiny") ||
		strings.Contains(out, "tiny-0123456789abcdef") || !strings.Contains(out, "acme/half") {
		t.Error(out)
	}
	for _, path := range []string{pulled, part, again} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
}

// TestUnfinishedNames: what is left of one model is not removed by the name of another: not of a packed file with the
// same short name, nor of a model of the hub whose name ends like a key.
func TestUnfinishedNames(t *testing.T) {
	cache, file := modelsOfTest(t)
	digest := strings.Repeat("fedcba9876543210", 4)
	other := filepath.Join(filepath.Dir(file), ".tiny-"+digest+".safetensors.resume")
	keyed := filepath.Join(cache, "hf", "hub", "models--acme--x-0123456789abcdef", "blobs", "ab.incomplete")
	write(t, other, "12345")
	write(t, keyed, "123")
	both := "tiny means 2 models; name one of them: tiny-0123456789abcdef, tiny-" + digest
	mustEndIn(t, 2, both, "rm", "tiny", "--yes")
	mustEndIn(t, 1, "there is no model acme/x in the caches", "rm", "acme/x", "--yes")
	for _, path := range []string{file, other, keyed} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	mustEndIn(t, 0, "removed 1 unfinished download: 5 bytes", "rm", "tiny-"+digest, "--yes")
	mustEndIn(t, 0, "removed 1 unfinished download: 3 bytes", "rm", "acme/x-0123456789abcdef", "--yes")
	mustEndIn(t, 0, "removed 1 model: ", "rm", "tiny", "--yes")
}

// TestUnfinishedFolder: of a folder, list shows interrupted conversions and the files to remove. A file that a process
// writes is not removed.
func TestUnfinishedFolder(t *testing.T) {
	serveTiny(t)
	dir := filepath.Join(t.TempDir(), "my models")
	target := filepath.Join(dir, "m.safetensors")
	resume := atomicfile.ResumePath(target)
	write(t, resume, "12345")
	write(t, resume+".journal", "12")
	write(t, filepath.Join(dir, ".answers.jsonl.resume"), "no model")
	codes := atomicfile.ResumePath(target + convert.CodesSuffix)
	write(t, codes, "123")
	_, out, _ := mainOf("list", dir)
	if want := target + ": unfinished, 10 B: the same lowpack convert --resume or lowpack pull continues it, rm '" +
		resume + "' '" + resume + ".journal' '" + codes + "' removes it\n"; out != want {
		t.Errorf("%swant %s", out, want)
	}
	f, err := atomicfile.Resume(atomicfile.OS, target)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := dropResume(target); n != 0 || err == nil || !strings.Contains(err.Error(), "a process uses it") {
		t.Errorf("%d, %v", n, err)
	}
	f.Abort()
	if n, err := dropResume(target); n != 10 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := dropResume(target); n != 0 || err != nil || len(resumeFiles(target)) > 0 {
		t.Errorf("once more: %d, %v", n, err)
	}
}
