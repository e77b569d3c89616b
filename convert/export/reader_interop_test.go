package export

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/seed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
)

const reader = "../../docs/examples/read_packed.py"

// TestInteropFormat: a reader of packed files that was written from docs/FORMAT.md alone reads the same weights, to the
// bit: ternary and other codes, with scales of tensors, rows and groups, zero points, minima, an order of columns, and
// experts.
func TestInteropFormat(t *testing.T) {
	tiny := shared.Testdata(t, "tiny-bitnet")
	experts := filepath.Join(t.TempDir(), "experts")
	tinymodel.Miniature(t, "gpt-oss-20b", experts)
	blocks := func(scale, minimum float32) string {
		path, _ := inBlocks(t, llamaFile(t), gguf.Q4_1,
			func(_ []float32, s pack.Shape) []byte { return q4_1(s, scale, minimum) })
		return path
	}
	r := seed.Rand(t)
	factored := func(kind gguf.Type) string {
		path, _ := inBlocks(t, wideFile(t), kind,
			func(_ []float32, s pack.Shape) []byte { return randomBlocks(r, kind, s, false) })
		return path
	}
	lossy := packed.Recipe{Golden: "none", AllowLossy: true, Quant: "int4", Scale: "group:64"}
	wide := packed.Recipe{Golden: "none", Layout: "vnni4i-64"}
	plain := packed.Recipe{Golden: "none"}
	for name, file := range map[string]string{
		"ternary":         tinymodel.Converted(t, tiny, plain),
		"int4":            tinymodel.Converted(t, tiny, lossy),
		"panels of 64":    tinymodel.Converted(t, tiny, wide),
		"zero points":     tinymodel.Converted(t, blocks(0.25, -1.75), plain),
		"minima":          tinymodel.Converted(t, blocks(0.25, -1.8125), plain),
		"mxfp4, experts":  tinymodel.Converted(t, experts, plain),
		"factors":         tinymodel.Converted(t, factored(gguf.Q4_K), plain),
		"factors, table":  tinymodel.Converted(t, factored(gguf.IQ4_XS), plain),
		"factors, grid":   tinymodel.Converted(t, factored(gguf.IQ2_XS), plain),
		"factors, odd":    tinymodel.Converted(t, factored(gguf.IQ3_S), plain),
		"factors of 16":   tinymodel.Converted(t, factored(gguf.Q3_K), plain),
		"minima, 5 bits":  tinymodel.Converted(t, factored(gguf.Q5_K), plain),
		"factors, 6 bits": tinymodel.Converted(t, factored(gguf.Q6_K), plain),
		"order of groups": tinymodel.Converted(t, shared.Path(t, "data/packed/gptq-b4-sym-g32-desc"), plain),
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{}
			f, err := packed.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for i := range f.Manifest().Packed {
				e := &f.Manifest().Packed[i]
				want[e.Name] = floatsDigest(t, f, e)
			}
			got := map[string]string{}
			d := json.NewDecoder(bytes.NewReader(interop.Python(t, "gguf", reader, file)))
			for {
				var line struct {
					Name   string
					Shape  []int
					Floats string `json:"floats_sha256"`
				}
				if err := d.Decode(&line); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				got[line.Name] = line.Floats
			}
			if len(want) == 0 || !maps.Equal(got, want) {
				t.Errorf("it reads %v, want %v", got, want)
			}
		})
	}
}

// floatsDigest of the weights of a tensor as float32, in the order of columns of the checkpoint.
func floatsDigest(t *testing.T, f *packed.File, e *packed.Entry) string {
	t.Helper()
	h, s := sha256.New(), e.MatrixShape()
	for expert := range e.Experts() {
		m, err := packed.Codes(f, e, expert)
		scales, err2 := packed.ScalesOf(f, e, expert)
		zeros, err3 := packed.ZerosOf(f, e, expert)
		minima, err4 := packed.MinimaOf(f, e, expert)
		order, err5 := packed.Order(f, e, expert)
		if err := errors.Join(err, err2, err3, err4, err5); err != nil {
			t.Fatal(err)
		}
		alphabet, err := pack.FindAlphabet(e.Layout.Alphabet)
		if err != nil {
			t.Fatal(err)
		}
		row := make([]float32, s.K)
		for i, code := range m.Codes {
			unit, x := e.Unit(i/s.K, i%s.K), float32(code)
			if e.Zero {
				x -= float32(zeros[unit])
			}
			if e.Min {
				x -= float32(slices.Min(alphabet.Values))
			}
			x *= scales[unit]
			if e.Min {
				x = float32(x) + minima[unit]
			}
			column := i % s.K
			if e.Order {
				column = int(order[column])
			}
			row[column] = x
			if i%s.K == s.K-1 {
				binary.Write(h, binary.LittleEndian, row)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// TestReaderIsShort: the reader is a page or two, with numpy alone.
func TestReaderIsShort(t *testing.T) {
	text, err := os.ReadFile(reader)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n > 155 {
		t.Errorf("%s has %d lines, more than 155", reader, n)
	}
	for line := range strings.Lines(string(text)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ := strings.Cut(rest, " ")
		if word == "import" && !slices.Contains([]string{"hashlib", "json", "math", "sys", "numpy"}, name) {
			t.Errorf("%s imports %s", reader, name)
		}
	}
}
