package bench

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/plot"
	"github.com/lowpack/lowpack/pack"
)

// smallParts are parts of small layers, with their work counted by hand.
var smallParts = []struct {
	part
	changes    map[string]any // of the configuration of the model
	bytes, ops int
}{
	{part{name: "attention-decode", model: "llama-3.1-8b", tokens: 1, depth: 5},
		map[string]any{"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
			"num_hidden_layers": 1},
		4 * 6 * 2 * 2 * 8, // 6 positions with keys and values of 2 heads of 8
		6 * 4 * 4 * 8},    // 6 positions, 4 heads, 4 operations for each of 8 values
	{part{name: "attention-prefill", model: "llama-3.1-8b", tokens: 3, depth: 5},
		map[string]any{"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
			"num_hidden_layers": 1},
		4 * 8 * 2 * 2 * 8,
		(6 + 7 + 8) * 4 * 4 * 8},
	{part{name: "mla-decode", model: "deepseek-v3", tokens: 2, depth: 3},
		map[string]any{"num_attention_heads": 2, "num_key_value_heads": 2, "kv_lora_rank": 16, "qk_nope_head_dim": 8,
			"qk_rope_head_dim": 4, "v_head_dim": 6, "num_hidden_layers": 1},
		4*5*(16+4) + 2*2*(8+6)*16,
		2*2*2*(8+6)*16 + (4+5)*2*2*(16+4+16)},
	{part{name: "delta-prefill", model: "qwen3-next-80b-a3b", mixer: model.GatedDelta, tokens: 3},
		map[string]any{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
			"linear_value_head_dim": 6, "linear_conv_kernel_dim": 4},
		4 * (2*(3*56+4*6*8) + 4*56), // 2·2·8 + 4·6 = 56 channels, of which 3 positions are kept
		3 * (2*4*56 + 7*4*6*8)},
	{part{name: "ssd-prefill", model: "granite-4.0-h-tiny", mixer: model.Mamba2, tokens: 3},
		map[string]any{"hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 2, "mamba_n_heads": 4,
			"mamba_d_head": 8, "mamba_d_state": 5},
		4 * (2*(3*42+4*8*5) + 4*42), // 4·8 + 2·5 = 42 channels
		3 * (2*4*42 + 5*4*8*5)},
	{part{name: "conv-decode", model: "lfm2-1.2b", mixer: model.ShortConv, tokens: 1},
		map[string]any{"hidden_size": 48, "block_dim": 48, "conv_dim": 48, "conv_dim_out": 48,
			"num_attention_heads": 4, "num_heads": 4, "num_key_value_heads": 2},
		4 * (2*2*48 + 3*48),
		2*3*48 + 2*48},
}

// smallCase gives a part the configuration of its model with some numbers changed.
func smallCase(t *testing.T, p part, changes map[string]any) part {
	t.Helper()
	o, err := synth.Find(p.model)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(o.Config, &config); err != nil {
		t.Fatal(err)
	}
	maps.Copy(config, changes)
	if p.config, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	return p
}

// runPart measures a part.
func runPart(ctx context.Context, p part, open partOpener) (*KernelReport, error) {
	r := newKernelRun(&KernelOptions{Meter: quick(), Threads: []int{1, 2}}, bindKernel)
	defer r.close()
	if err := r.part(ctx, p, open); err != nil {
		return nil, err
	}
	return &r.KernelReport, r.verdict()
}

// TestParts: the runtime's parts have the results of the definition, figures, and the work that was counted by hand.
func TestParts(t *testing.T) {
	for _, c := range smallParts {
		r, err := runPart(t.Context(), smallCase(t, c.part, c.changes), openPart)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if len(r.Parts) != 2 || r.Parts[0].Threads != 1 || r.Parts[1].Threads != 2 {
			t.Errorf("%s: %+v", c.name, r.Parts)
		}
		for _, row := range r.Parts {
			ops := row.GOPS * 1e9 * row.Seconds.Median
			if row.Part != c.name || row.Model != c.model || row.Tokens != c.tokens || row.Depth != c.depth ||
				row.Bytes != c.bytes || ops < float64(c.ops)*0.999 || ops > float64(c.ops)*1.001 ||
				row.Fraction.Median <= 0 || row.PeakGOPS <= 0 || row.Turns < fewestTurns {
				t.Errorf("%s: %+v; want %d bytes and %d operations, not %.0f", c.name, row, c.bytes, c.ops, ops)
			}
		}
	}
}

// wrongPart has one wrong output, the last of the last token.
type wrongPart struct{ partLayer }

func (w wrongPart) append(in, out []float32) error {
	err := w.partLayer.append(in, out)
	out[len(out)-1]++
	return err
}

func TestWrongPart(t *testing.T) {
	for _, c := range smallParts {
		r, err := runPart(t.Context(), smallCase(t, c.part, c.changes),
			func(c *partCase, threads int) (partLayer, error) {
				l, err := openPart(c, threads)
				if threads == 2 {
					return wrongPart{l}, err
				}
				return l, err
			})
		if !errors.Is(err, ErrWrong) || !strings.Contains(err.Error(), "1 of 2 measurements") ||
			!strings.Contains(err.Error(), c.name) {
			t.Fatalf("%s: %v", c.name, err)
		}
		if right, wrong := r.Parts[0], r.Parts[1]; right.Wrong != "" || wrong.Wrong == "" || wrong.Turns != 0 {
			t.Errorf("%s: %+v", c.name, r.Parts)
		}
	}
}

// failing fails where it is measured.
type failing struct{ partLayer }

func (f failing) compute() error { return pack.ErrLimit }

func TestPartFails(t *testing.T) {
	c := smallParts[0]
	_, err := runPart(t.Context(), smallCase(t, c.part, c.changes),
		func(c *partCase, threads int) (partLayer, error) {
			l, err := openPart(c, threads)
			return failing{l}, err
		})
	if !errors.Is(err, pack.ErrLimit) {
		t.Errorf("error %v", err)
	}
}

// TestPublishedParts: every part is there in the model whose shapes it has, with the work of its published sizes.
func TestPublishedParts(t *testing.T) {
	want := map[string][2]int{
		"attention-decode":  {4 * 4097 * 2 * 8 * 128, 4097 * 32 * 4 * 128},
		"attention-prefill": {4 * 2048 * 2 * 8 * 128, (128*1920 + 128*129/2) * 32 * 4 * 128},
		"mla-decode": {4*4097*576 + 2*128*256*512,
			2*128*256*512 + 4097*128*2*(576+512)},
		"delta-decode":  {4 * (2*(3*8192+32*128*128) + 4*8192), 2*4*8192 + 7*32*128*128},
		"delta-prefill": {4 * (2*(3*8192+32*128*128) + 4*8192), 128 * (2*4*8192 + 7*32*128*128)},
		"ssd-decode":    {4 * (2*(3*3328+48*64*128) + 4*3328), 2*4*3328 + 5*48*64*128},
		"ssd-prefill":   {4 * (2*(3*3328+48*64*128) + 4*3328), 128 * (2*4*3328 + 5*48*64*128)},
		"conv-decode":   {4 * (2*2*2048 + 3*2048), 8 * 2048},
		"conv-prefill":  {4 * (2*2*2048 + 3*2048), 128 * 8 * 2048},
	}
	list, err := findParts(PartNames())
	if err != nil || len(list) != len(want) {
		t.Fatalf("%d parts, %v", len(list), err)
	}
	for _, p := range list {
		c, err := newPartCase(p)
		if err != nil {
			t.Fatal(err)
		}
		if w := c.work(); w.bytes != want[p.name][0] || w.ops != want[p.name][1] || !w.floats {
			t.Errorf("%s: %+v; want %v", p.name, w, want[p.name])
		}
	}
}

// TestPartsInReport: parts alone, with their limits in the chart; an unknown one, or one that the model does not have,
// is refused.
func TestPartsInReport(t *testing.T) {
	o := KernelOptions{Meter: quick(), Threads: []int{1}, Parts: []string{"conv-decode"}}
	r, err := Kernels(t.Context(), o)
	if err != nil || len(r.Rows) != 0 || len(r.Parts) != 1 || len(r.Choices) != 0 {
		t.Fatalf("%v: %+v", err, r)
	}
	var svg strings.Builder
	if err := plot.SVG(&svg, r.Plot()); err != nil || !strings.Contains(svg.String(), "conv-decode") ||
		!strings.Contains(svg.String(), "float32") {
		t.Errorf("%v: %.300s", err, svg.String())
	}
	r.Parts[0].Noise = true
	if err := plot.SVG(&svg, r.Plot()); err != nil || !strings.Contains(svg.String(), "1 measurements that are noise") {
		t.Error("a part that is noise is in the chart")
	}
	o.Parts = []string{"conv-dekode"}
	if _, err := Kernels(t.Context(), o); !errors.Is(err, pack.ErrUnsupported) ||
		!strings.Contains(err.Error(), "conv-decode") {
		t.Errorf("error %v", err)
	}
	c := smallParts[0]
	p := smallCase(t, c.part, c.changes)
	p.mixer = model.Mamba2
	if _, err := runPart(t.Context(), p, openPart); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("error %v", err)
	}
}

// TestColdParts: before every call all of the memory is read, and inputs are loaded.
func TestColdParts(t *testing.T) {
	seen := make([]int, 6)
	l := newLimits(make([]byte, 1<<20), 1)
	defer l.close()
	l.read = &stretch{task: counter(seen), parts: 2, of: 3}
	var calls []string
	m := quick()
	_, err := l.measureCold(t.Context(), &m, work{isa: "generic", bytes: 1, ops: 1, scale: 1},
		func() { calls = append(calls, "load"); seen[0] = 0 },
		func() {
			calls = append(calls, "compute")
			if len(calls) > 2 && seen[5] < 2*len(calls)/4 {
				t.Errorf("after %d calls the last part of memory was read %d times", len(calls), seen[5])
			}
		})
	first := []string{"load", "compute", "load", "compute"}
	if err != nil || len(calls) < 2*fewestTurns || !slices.Equal(calls[:4], first) {
		t.Errorf("%v: %v", err, calls)
	}
}
