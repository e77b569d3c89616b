package convert

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// calibrationText has enough tokens.
var calibrationText = strings.Repeat("Once upon a time there was a little girl who liked to play in the park. ", 40)

// TestCalibrate: the text changes the scales of the linear layers and of the head, is recorded, and gives the same
// bytes with any number of threads. Nothing is left next to the target.
func TestCalibrate(t *testing.T) {
	source := shared.Testdata(t, "tiny-bitnet")
	o := plain(packed.Recipe{Quant: "int4", Scale: "group:32", Head: packed.HeadInt4, AllowLossy: true,
		Include: []string{"*layers.0.*", "lm_head*"}})
	before := convertTo(t, source, o)
	o.Calibration = []Document{{Text: calibrationText}}
	var codes []string
	for _, o.Method = range packed.Methods() {
		after := testCalibrate(t, source, o, before)
		codes = append(codes, after.Manifest().Packed[1].CodesSHA) // the first one is the head
	}
	if codes[0] == codes[1] {
		t.Error("error feedback changes no code")
	}
}

// testCalibrate compares a calibrated file with the uncalibrated one.
func testCalibrate(t *testing.T, source string, o Options, before *packed.File) *packed.File {
	t.Helper()
	dir := t.TempDir()
	var files [][]byte
	for i, threads := range []int{1, 3} {
		o.Threads = threads
		path := filepath.Join(dir, string(rune('a'+i)))
		tokens := int64(0)
		phases := map[packed.Method]string{packed.MeanSquare: CalibrationPhase, packed.GPTQ: FeedbackPhase}
		o.Progress = func(what string, done, total int64) {
			if what == phases[o.Method] && done <= total {
				tokens = done
			}
		}
		if _, err := newPlan(t, source, o).Run(context.Background(), path); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil || tokens == 0 {
			t.Fatal(err, tokens)
		}
		files = append(files, b)
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("the number of threads changes the file")
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("%v are left in the directory", left)
	}
	after, err := packed.Open(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { after.Close() })
	c := after.Manifest().Recipe.Calibration
	if c == nil || c.Method != o.Method || len(c.Text) != 64 || c.Tokens < calibrationLeast {
		t.Errorf("calibration is recorded as %+v", c)
	}
	for i, e := range after.Manifest().Packed {
		if !e.Calibrated || e.ScaleSHA == before.Manifest().Packed[i].ScaleSHA {
			t.Errorf("%s: calibrated %t", e.Name, e.Calibrated)
		}
		scales, err := packed.ScalesOf(after, &e, 0)
		if err != nil || slices.Contains(scales, 0) {
			t.Errorf("%s: weights that are not zero have a scale of zero (%v)", e.Name, err)
		}
	}
	return after
}

// TestSpread: windows of a short text hold each token once; windows of a long text are full, at equal distances, and
// begin with its first token.
func TestSpread(t *testing.T) {
	const most = 4000
	ids := make([]int, 10*most+7)
	for i := range ids {
		ids[i] = i
	}
	for _, room := range []int{1, 100, calibrationWindow} {
		for _, n := range []int{1, room, room + 1, 5*room + 3} {
			if got := spread(ids[:n], room, most); !slices.Equal(slices.Concat(got...), ids[:n]) ||
				len(got) != (n+room-1)/room {
				t.Errorf("%d tokens in %d windows of %d", n, len(got), room)
			}
		}
		for i, w := range spread(ids, room, most) {
			if all := most / room; len(w) != room || w[0] != i*len(ids)/all {
				t.Errorf("window %d of %d tokens begins with token %d; it should have %d and begin with %d", i, len(w),
					w[0], room,
					i*len(ids)/all)
			}
		}
	}
}

// TestCalibrateSome: layers that are not calibrated keep the scales that they have without calibration: experts, and
// layers for which the recipe chooses another quantizer or a per-tensor scale.
func TestCalibrateSome(t *testing.T) {
	other := packed.Recipe{Quant: "int4", Scale: "group:32", AllowLossy: true, Include: []string{"*layers.0.*"},
		Rules: []packed.Rule{
			{Match: "*.q_proj.*", Quant: "int8", Layout: "vnni4"},
			{Match: "*.k_proj.*", Quant: "int4", Scale: "tensor"},
		}}
	for source, c := range map[string]struct {
		recipe  packed.Recipe
		without func(name string) bool
	}{
		shared.Testdata(t, "tiny-bitnet"): {other, func(name string) bool {
			return strings.Contains(name, ".q_proj.") || strings.Contains(name, ".k_proj.")
		}},
		mini(t, "qwen1.5-moe-a2.7b", nil): {packed.Recipe{Quant: "int4", Scale: "group:32", AllowLossy: true},
			func(name string) bool {
				return strings.Contains(name, ".mlp.experts.") || name == packed.HeadName
			}},
	} {
		o := plain(c.recipe)
		before := convertTo(t, source, o)
		o.Calibration, o.Method = []Document{{Text: calibrationText}}, packed.GPTQ
		after := convertTo(t, source, o)
		kept := 0
		for i, e := range after.Manifest().Packed {
			without := c.without(e.Name)
			if e.Calibrated == without || (e.ScaleSHA == before.Manifest().Packed[i].ScaleSHA) != without {
				t.Errorf("%s: calibrated %t", e.Name, e.Calibrated)
			}
			if without {
				kept++
			}
		}
		if kept == 0 {
			t.Errorf("%s: all are calibrated", source)
		}
	}
}

// TestCalibrateRefused: a text that cannot be used is refused before anything is written.
func TestCalibrateRefused(t *testing.T) {
	int4 := packed.Recipe{Quant: "int4", Scale: "group:32", AllowLossy: true}
	bare := filepath.Join(t.TempDir(), "w.safetensors")
	writeWeights(t, bare, map[string]raw{"w": {"F32", []int64{2, 64}, make([]byte, 512)}})
	narrow := mini(t, "llama-3.2-1b", nil)
	config := filepath.Join(narrow, "config.json")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`"max_position_embeddings": *\d+`).ReplaceAll(text,
		[]byte(`"max_position_embeddings": 1`))
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		source, text, says string
		recipe             packed.Recipe
	}{
		{narrow, calibrationText, "no room for text", int4},
		{shared.Testdata(t, "tiny-bitnet"), calibrationText + "\xff", "not UTF-8", int4},
		{shared.Testdata(t, "tiny-bitnet"), "Once upon a time.", "at least 256 are needed", int4},
		{shared.Testdata(t, "tiny-bitnet"), calibrationText, "no scales to choose", packed.Recipe{}},
		{shared.Testdata(t, "tiny-bitnet"), calibrationText, "no scales to choose",
			packed.Recipe{Quant: "int4", Scale: "tensor", AllowLossy: true}},
		{bare, calibrationText, "no model with a tokenizer", int4},
	} {
		o := plain(c.recipe)
		o.Calibration, o.Method = []Document{{Text: c.text}}, packed.GPTQ
		p, err := NewPlan(context.Background(), c.source, o)
		if err == nil {
			p.Close()
		}
		if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %q", c.source, err, c.says)
		}
	}
}
