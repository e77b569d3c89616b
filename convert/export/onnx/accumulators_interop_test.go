package onnx

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/exports"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// roles maps the linear layers of a block in the graph to the checkpoint.
var roles = [][2]string{
	{"attention.q", "self_attn.q_proj"}, {"attention.k", "self_attn.k_proj"}, {"attention.v", "self_attn.v_proj"},
	{"attention.o", "self_attn.o_proj"},
	{"mlp.gate", "mlp.gate_proj"}, {"mlp.up", "mlp.up_proj"}, {"mlp.down", "mlp.down_proj"},
}

// TestInteropAccumulators: in the first layer the sums of onnxruntime and of OpenVINO equal the int32 accumulators of
// the packed codes, for weights of every width, with zero points and column orders, and per group of columns if groups
// have their own scales. Activation codes that depend on no float arithmetic except a norm equal the golden trace.
func TestInteropAccumulators(t *testing.T) {
	tiny := shared.Testdata(t, "tiny-bitnet")
	imported := func(name string) string { return shared.Path(t, filepath.Join("data", "packed", name)) }
	for _, c := range []struct {
		checkpoint string
		recipe     packed.Recipe
	}{
		{tiny, packed.Recipe{}}, {tiny, exports.PerRow("int4")}, {tiny, exports.PerRow("int8")},
		{tiny, inGroups("int4", "group:32", "group:128")}, {tiny, inGroups("int4", "group:128", "group:64")}, {tiny,
			inGroups("int8", "group:64", "token")},
		{tiny, inGroups("int8", "row", "group:32")}, {tiny, inGroups("mxfp4", "", "")}, {tiny,
			packed.Recipe{Activation: "group:64"}},
		{imported("gptq-b4-asym-g128-v1"), packed.Recipe{}}, {imported("gptq-b4-sym-g32-desc"), packed.Recipe{}},
		{imported("ct-pack-b2-asym-g32"), packed.Recipe{}},
	} {
		source := exports.Packed(t, c.checkpoint, c.recipe)
		f, err := packed.Open(source)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := plan(f, export.Exact)
		if err != nil {
			t.Fatal(err)
		}
		prompt := []int{1, 5, 9, 33, 2, 71, 100, 18, 9, 9, 44}
		if c.checkpoint == tiny {
			prompt = exports.TinyGoldens(t)[0].Prompt
		}
		var list []watched
		for _, role := range roles {
			list = append(list, m.watch(t, role))
		}
		dir := written(t, m)
		for _, run := range []struct {
			runtime string
			threads int
		}{{"onnxruntime", 1}, {"onnxruntime", 2}, {"openvino", 2}} {
			_, values := in(t, run.runtime, dir,
				session{Threads: run.threads, Level: everything, Prompts: [][]int{prompt}, Outputs: names(list)})
			for i, w := range list {
				x, y := values[:len(prompt)*w.columns], values[len(prompt)*w.columns:][:len(prompt)*w.blocks*
					w.entry.MatrixShape().M]
				values = values[len(x)+len(y):]
				if c.checkpoint == tiny && c.recipe.Quant == "" && c.recipe.Activation == "" && i < 3 {
					exports.SameCodes(t, strings.TrimSuffix(w.entry.Name, ".weight"), x)
				}
				w.sameSums(t, f, x, y)
			}
		}
	}
}

// watched is a layer whose activation codes and accumulators are graph outputs.
type watched struct {
	entry           *packed.Entry
	codes, sums     string
	columns, blocks int
}

// watch turns the codes and the accumulators of a role in the first layer into graph outputs.
func (m *exported) watch(t *testing.T, role [2]string) watched {
	out := "layers.0." + role[0]
	e, ok := m.manifest.Entry("model.layers.0." + role[1] + ".weight")
	if !ok {
		t.Fatalf("no layer %s", out)
	}
	if e.Min {
		out += "/scaled_codes"
	}
	shape := e.MatrixShape()
	w := watched{e, "", out + "/accumulators", shape.K, 1}
	dims, k, codes := []any{batch, tokens, int64(shape.M)}, int32Kind, []any{batch, tokens, int64(shape.K)}
	if f, err := formOf(e); err == nil && f.exact(m.file, m.manifest.Activation) {
		k = float32Kind
	} else if n, err := integersOf(e, m.manifest.Activation); err != nil {
		t.Fatal(err)
	} else if n.grouped() || n.blocks > 1 {
		w = watched{e, "", out + "/accumulators/all", n.columns(), n.blocks}
		dims, codes[2] = append([]any{int64(n.blocks)}, dims...), int64(n.columns())
		if n.grouped() {
			codes = []any{batch, tokens, int64(n.columns() / n.group), int64(n.group)}
		}
	}
	if w.blocks > 1 {
		i := slices.IndexFunc(m.nodes,
			func(n node) bool { return n.op == "Scan" && (n.out[0] == out || n.out[0] == out+"/blocks") })
		body := m.nodes[i].attributes[0].value.(*graph)
		body.outputs = append(body.outputs, value{out + "/accumulators", k, dims[1:]})
		m.nodes[i].out = append(m.nodes[i].out, w.sums)
		w.codes = m.nodes[i].in[1]
	} else {
		i := slices.IndexFunc(m.nodes, func(n node) bool { return n.out[0] == w.sums })
		w.codes = m.nodes[i].in[0]
	}
	if i := strings.Index(w.codes, "/codes"); i >= 0 {
		w.codes = w.codes[:i] + "/codes"
	}
	m.show(value{w.codes, float32Kind, codes})
	m.show(value{w.sums, k, dims})
	return w
}

// show turns a value into a graph output.
func (m *exported) show(v value) {
	if !slices.ContainsFunc(m.outputs, func(o value) bool { return o.name == v.name }) {
		m.outputs = append(m.outputs, v)
	}
}

// names of the outputs, two for each layer.
func names(list []watched) (names []string) {
	for _, w := range list {
		names = append(names, w.codes, w.sums)
	}
	return names
}

// sameSums computes the accumulators from the codes of weights and activations.
func (w *watched) sameSums(t *testing.T, f *packed.File, x, y []float32) {
	t.Helper()
	m, err := packed.Codes(f, w.entry, 0)
	if err != nil {
		t.Fatal(err)
	}
	zeros, err := packed.Zeros(f, w.entry)
	if err != nil {
		t.Fatal(err)
	}
	tokens, block := len(x)/w.columns, w.columns/w.blocks
	different := map[float32]bool{}
	for b := range w.blocks {
		for token := range tokens {
			for row := range m.M {
				sum := int32(0)
				for k := b * block; k < min(m.K, (b+1)*block); k++ {
					code := int32(m.Codes[row*m.K+k])
					if zeros != nil {
						code -= int32(zeros[w.entry.Unit(row, k)])
					}
					sum += code * int32(x[token*w.columns+k])
				}
				got := y[(b*tokens+token)*m.M+row]
				if different[got] = true; int32(got) != sum || got != float32(sum) {
					t.Fatalf("%s: token %d, row %d, block %d: accumulator %v, the sum is %d", w.entry.Name, token, row,
						b, got, sum)
				}
			}
		}
	}
	if len(different) < 100 {
		t.Errorf("%s: %d different accumulators", w.entry.Name, len(different))
	}
}
