package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/convert/export/openvino"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/exports"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// batchedBench is the program that measures OpenVINO.
const batchedBench = "../../../../packaging/openvino/openvino-batched-bench"

// TestInteropBatchedBench: the program takes the arguments of llama-batched-bench and prints its table, a runner reads
// its speeds, and of a prompt the last logits alone are computed, which are those of the model.
func TestInteropBatchedBench(t *testing.T) {
	python := interop.Interpreter(t, "openvino")
	source := exports.Packed(t, shared.Testdata(t, "tiny-bitnet"), packed.Recipe{})
	dir := filepath.Join(t.TempDir(), "model")
	if _, err := openvino.Export(t.Context(), source, dir, export.Plain, nil); err != nil {
		t.Fatal(err)
	}
	work := Work{What: Context, Tokens: 5, Batch: 2}
	out := interop.Python(t, "openvino", "testdata/last_logits.py",
		slices.Concat([]string{batchedBench, "-m", dir}, batchedArgs(work, 1))...)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if prefill, decode, err := batchedSpeeds(out); err != nil || !strings.HasPrefix(lines[2], "| 5 | 32 | 2 |") {
		t.Errorf("%v, %v, %v from %q", prefill, decode, err, out)
	}
	var a struct {
		Vocabulary  int
		Whole, Last []int
		Difference  float64
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &a); err != nil {
		t.Fatal(err)
	}
	if n := a.Vocabulary; !slices.Equal(a.Whole, []int{1, 3, n}) || !slices.Equal(a.Last, []int{1, 1, n}) ||
		a.Difference > 1e-4 {
		t.Errorf("%+v", a)
	}

	program := filepath.Join(t.TempDir(), "openvino-batched-bench") // as packaging/openvino/install makes it
	script, err := os.ReadFile(batchedBench)
	if err == nil {
		err = os.WriteFile(program, append([]byte("#!"+python+"\n"), script...), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	roofs := NewRoofs(&Meter{}, 1)
	defer roofs.Close()
	rate, limit, err := roofs.Peer(Peer{Program: program, Model: dir, Like: source})(t.Context(),
		Work{What: Generate, Tokens: 4, Batch: 1})
	if err != nil || !positive(rate) || !positive(limit) {
		t.Errorf("%v, %v, %v", rate, limit, err)
	}
}

// TestOpenVINOPins: the version that tests run is the one that is measured.
func TestOpenVINOPins(t *testing.T) {
	pin := regexp.MustCompile(`(?m)^openvino==\S+$`)
	var pins []string
	for _, name := range []string{"packaging/openvino/requirements.txt", ".ci/interop/openvino.txt"} {
		text, err := os.ReadFile(filepath.Join("../../../..", name))
		if err != nil {
			t.Fatal(err)
		}
		pins = append(pins, pin.FindString(string(text)))
	}
	if pins[0] == "" || pins[0] != pins[1] {
		t.Errorf("%q", pins)
	}
}
