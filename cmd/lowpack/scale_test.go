package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// examples returns a job (see docs_test.go) with the files of docs/examples, and the bytes of an undivided conversion.
func examples(t *testing.T) (j *job, whole string) {
	t.Helper()
	j = newJob(t)
	dir, err := filepath.Abs("../../docs/examples")
	if err != nil {
		t.Fatal(err)
	}
	j.env = append(j.env, "EXAMPLES="+dir)
	j.run("lowpack convert checkpoint --layout vnni4i -o whole.safetensors")
	return j, j.read("whole.safetensors")
}

// same demands that a packed file is the one of a conversion in one piece.
func (j *job) same(name, whole string) {
	j.t.Helper()
	if j.read(name) != whole {
		j.t.Errorf("%s is not what one conversion writes", name)
	}
}

// TestScaleExamples runs the command lines of docs/SCALE.md, except for Slurm and Kubernetes, which have separate
// tests.
func TestScaleExamples(t *testing.T) {
	t.Parallel()
	blocks := codeBlocks(t, "../../docs/SCALE.md")["sh"]
	if len(blocks) != 3 {
		t.Fatalf("docs/SCALE.md has other examples than this test knows: %d", len(blocks))
	}
	for _, script := range blocks {
		j, whole := examples(t)
		j.run("ln -s \"$EXAMPLES\" examples\nset -e\n" + script)
		j.same("model.safetensors", whole)
	}
}

// TestWorkers runs several workers on the parts of one conversion at the same time.
func TestWorkers(t *testing.T) {
	t.Parallel()
	j, whole := examples(t)
	j.run(`for w in 1 2 3 4; do sh "$EXAMPLES/shell/worker.sh" checkpoint parts 16 --layout vnni4i 2>log$w & done; wait
		sh "$EXAMPLES/shell/worker.sh" checkpoint parts 16 --layout vnni4i`)
	if left, err := filepath.Glob(filepath.Join(j.dir, "parts", ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q %v", left, err)
	}
	j.run("lowpack merge parts/part-* -o model.safetensors")
	j.same("model.safetensors", whole)
}

// TestMakeParts: failed parts are repeated, and nothing else.
func TestMakeParts(t *testing.T) {
	t.Parallel()
	j, whole := examples(t)
	build := `make -j3 -f "$EXAMPLES/shell/parts.mk" CHECKPOINT=checkpoint TARGET=model.safetensors COUNT=5 FLAGS="--layout vnni4i" 2>&1`
	j.run(build)
	j.same("model.safetensors", whole)
	j.run("rm model.safetensors model.safetensors.parts/part-3")
	if out := j.run(build); strings.Count(out, "lowpack convert") != 1 {
		t.Errorf("to make one part again, make ran\n%s", out)
	}
	j.same("model.safetensors", whole)
}
