package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/atomicfile"
)

// TestUnfinished: list shows what interrupted downloads have left, with size and what to do, also where there is no
// model; rm removes it, with the complete model of the name if there is one, and nothing else.
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
		"\nacme/part: unfinished, 2500 B: lowpack pull acme/part continues it, lowpack rm acme/part removes it\n",
		"\nacme/tiny: unfinished, 3 B: ",
		"\nother-" + digest + ": unfinished, 1500 B: lowpack pull of the same artifact continues it, lowpack rm " +
			"other-" + digest + " removes it\n",
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
	mustEndIn(t, 0, "removed 1 model: 2500 bytes", "rm", "acme/part", "--yes")
	mustEndIn(t, 0, "removed 1 model: 1500 bytes", "rm", "other", "--yes")
	mustEndIn(t, 0, "removed 1 model: ", "rm", "acme/tiny", "--yes")
	if _, out, _ := mainOf("list"); strings.Contains(out, "unfinished") || strings.Contains(out, "acme/tiny") ||
		!strings.Contains(out, "tiny-0123456789abcdef") || !strings.Contains(out, "acme/half") {
		t.Error(out)
	}
	for _, path := range []string{pulled, part, again} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
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
	_, out, _ := mainOf("list", dir)
	if want := target + ": unfinished, 7 B: the same lowpack convert --resume or lowpack pull continues it, rm '" +
		resume + "' '" + resume + ".journal' removes it\n"; out != want {
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
	if n, err := dropResume(target); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := dropResume(target); n != 0 || err != nil {
		t.Errorf("once more: %d, %v", n, err)
	}
}
