package convert

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// TestReport: the report of a conversion matches the file, and requesting it changes no byte.
func TestReport(t *testing.T) {
	dir := shared.Testdata(t, "tiny-bitnet")
	for _, r := range []packed.Recipe{{}, {Head: packed.HeadInt8, Layout: "i2s"},
		{Head: packed.HeadInt6}, {Head: packed.HeadInt4, Layout: "i2"}} {
		o := plain(r)
		o.Report = true
		p, target := newPlan(t, dir, o), filepath.Join(t.TempDir(), "told.safetensors")
		if _, err := p.Run(context.Background(), target); err != nil {
			t.Fatal(err)
		}
		measured := newPlan(t, dir, plain(r))
		if err := measured.Measure(context.Background()); err != nil {
			t.Fatal(err)
		}
		silent := filepath.Join(t.TempDir(), "silent.safetensors")
		if _, err := measured.Run(context.Background(), silent); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(contents(t, target), contents(t, silent)) {
			t.Error("the report changed the file")
		}
		f, err := packed.Open(target)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for i, row := range p.Report() {
			want := measured.Tensors[i]
			if row.Tensor != want.Tensor || row.BytesIn != want.BytesIn || row.BytesOut != want.BytesOut ||
				row.Seconds <= 0 {
				t.Errorf("%+v, planned %+v", row, want)
			}
			if row.RelError == nil || *row.RelError != *want.RelError {
				t.Errorf("%s: error %v, measured %v", row.Tensor, row.RelError, *want.RelError)
			}
			e, quantized := f.Manifest().Entry(row.Tensor)
			if !quantized {
				if row.Codes != nil || row.Scales.Count != 0 {
					t.Errorf("%s is kept, but has codes: %+v", row.Tensor, row)
				}
				continue
			}
			m, err := packed.Codes(f, e, 0)
			if err != nil {
				t.Fatal(err)
			}
			counts := map[int32]int64{}
			for _, c := range m.Codes {
				counts[int32(c)]++
			}
			for _, c := range row.Codes {
				if counts[c.Value] != c.Count {
					t.Errorf("%s: code %d occurs %d times, told %d", row.Tensor, c.Value, counts[c.Value], c.Count)
				}
				delete(counts, c.Value)
			}
			scales, err := packed.Scales(f, e)
			if err != nil || len(counts) != 0 || int64(len(scales)) != row.Scales.Count ||
				row.Scales.Min > row.Scales.Mean ||
				row.Scales.Mean > row.Scales.Max ||
				float32(row.Scales.Min) != slices.Min(scales) || float32(row.Scales.Max) != slices.Max(scales) {
				t.Errorf("%s: %d scales, told %+v; codes left out: %v (%v)", row.Tensor, len(scales), row.Scales,
					counts, err)
			}
		}
	}
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
