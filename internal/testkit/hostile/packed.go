package hostile

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
)

// forge is the base file with something changed before the digests are computed: what a careful forger would write.
func forge(change func(f *forged)) func() []byte {
	return func() []byte {
		f := baseForged()
		change(f)
		f.sortPlain()
		f.seal()
		return f.bytes()
	}
}

// unsealed is the base file with a manifest that was changed after the digests were computed; its own digest is right.
func unsealed(change func(f *forged)) func() []byte {
	return func() []byte {
		f := baseForged()
		change(f)
		return f.bytes()
	}
}

// reworded is the base file with another header text around the same data.
func reworded(change func(text string) string) func() []byte {
	return func() []byte {
		text, data := baseForged().header()
		return frame(change(aligned(text)), data)
	}
}

// damaged is the base file with other bytes.
func damaged(change func(b []byte) []byte) func() []byte {
	return func() []byte { return change(baseForged().bytes()) }
}

const (
	// [32, 32]: 224 packed bytes and 32 of padding; four groups of five columns, three of four
	query = "model.layers.0.self_attn.q_proj.weight"
	down  = "model.layers.0.mlp.down_proj.weight" // [32, 64], the first tensor
)

// entry changes the manifest's entry of a quantized tensor.
func entry(name string, change func(e *packedEntry)) func(f *forged) {
	return func(f *forged) {
		for i := range f.Packed {
			if f.Packed[i].Name == name {
				change(&f.Packed[i])
			}
		}
	}
}

// packedByte sets a stored byte of a quantized tensor.
func packedByte(name string, at int, value byte) func(f *forged) {
	return func(f *forged) { f.tensors[name+".packed"][at] = value }
}

func scaled(s float64) func(f *forged) {
	return func(f *forged) {
		binary.LittleEndian.PutUint32(f.tensors[query+".scale"], math.Float32bits(float32(s)))
	}
}

// zeroed gives the query a zero point.
func zeroed(zero byte) func(f *forged) {
	return func(f *forged) {
		entry(query, func(e *packedEntry) { e.Zero = true })(f)
		f.tensors[query+".zero"] = []byte{zero}
	}
}

// minimal gives the query group-wise scales with minima.
func minimal(minimum float64, rows int) func(f *forged) {
	return func(f *forged) {
		entry(query, func(e *packedEntry) { e.Min, e.Scale = true, scale{Kind: "group", Group: 32, DType: "F32"} })(f)
		for range rows {
			f.tensors[query+".min"] = binary.LittleEndian.AppendUint32(f.tensors[query+".min"],
				math.Float32bits(float32(minimum)))
		}
		f.tensors[query+".scale"] = bytes.Repeat(f.tensors[query+".scale"], 32)
	}
}

// ordered gives the columns of the query an order.
func ordered(at func(j int) int) func(f *forged) {
	return func(f *forged) {
		entry(query, func(e *packedEntry) { e.Order = true })(f)
		for j := range 32 {
			f.tensors[query+".order"] = binary.LittleEndian.AppendUint32(f.tensors[query+".order"], uint32(at(j)))
		}
	}
}

// templated is a model whose chat template is the given one.
func templated(template string) func(f *forged) {
	return func(f *forged) {
		f.embed("tokenizer_config.json", encode(map[string]any{"chat_template": template}))
	}
}

func once(old, new string) func(text string) string {
	return func(text string) string { return strings.Replace(text, old, new, 1) }
}

func withGolden(b []byte) func(f *forged) {
	return func(f *forged) {
		f.Golden, f.tensors["lowpack/golden"] = "x", append(b, make([]byte, (64-len(b)%64)%64)...)
	}
}

// lastMoved is the base file whose last tensor lies 64 bytes further on, behind bytes that belong to nothing.
func lastMoved() []byte {
	text, data := baseForged().header()
	at := strings.LastIndex(text, "[")
	begin, end, _ := strings.Cut(strings.TrimRight(text[at+1:], "]}"), ",")
	b, _ := strconv.Atoi(begin)
	e, _ := strconv.Atoi(end)
	text = text[:at+1] + strconv.Itoa(b+64) + "," + strconv.Itoa(e+64) + "]}}"
	data = append(data[:b:b], append(bytes.Repeat([]byte("?"), 64), data[b:]...)...)
	return frame(aligned(text), data)
}

// packedCase is a packed file. Rule is the one of docs/FORMAT.md that verify must name.
type packedCase struct {
	id    string
	class Class
	rule  string
	note  string
	file  func() []byte
}

func packedFiles() (cases []Case) {
	for _, c := range packedCases {
		cases = append(cases, Case{ID: c.id, Group: Packed, Class: c.class, Rule: c.rule, Note: c.note,
			build: asFile(c.file)})
	}
	return cases
}

var packedCases = []packedCase{
	{"P00", Accept, "", "control: the base model, packed", forge(func(*forged) {})},
	{"P01a", Syntax, "F1–F5", "cut within the header", damaged(func(b []byte) []byte { return b[:1000] })},
	{"P01b", Structure, "F1–F5", "cut within the data", damaged(func(b []byte) []byte { return b[:len(b)-100] })},
	{"P02a", Digest, "F17", "one bit of a weight",
		damaged(func(b []byte) []byte { b[8+binary.LittleEndian.Uint64(b)+5] ^= 1; return b })},
	{"P02b", Digest, "F4", "one digit of the manifest", reworded(once(`\"bytes\":416`, `\"bytes\":417`))},
	{"P03a", Syntax, "F1–F5", "the header is longer than the file",
		damaged(func(b []byte) []byte { binary.LittleEndian.PutUint64(b, uint64(len(b))); return b })},
	{"P03b", Limit, "F1–F5", "the header has 2⁶⁴ − 64 bytes",
		damaged(func(b []byte) []byte { binary.LittleEndian.PutUint64(b, 1<<64-64); return b })},
	{"P04", Structure, "F1–F5", "two tensors in one place", reworded(once(`[448,896]`, `[0,448]`))},
	{"P05a", Structure, "F1–F5", "a tensor at 2⁶⁴ − 448, over the manifest",
		reworded(once(`[0,448]`, `[18446744073709551168,0]`))},
	{"P05b", Structure, "F1–F5", "a tensor behind the end of the file",
		reworded(once(`[0,448]`, `[99999552,100000000]`))},
	{"P06a", Structure, "F1–F5", "bytes between two tensors", lastMoved},
	{"P06b", Structure, "F15", "padding of a packed tensor that is not zero", forge(packedByte(query, 255, 1))},
	{"P07a", Unsupported, "F14", "a layout that nobody knows",
		unsealed(entry(query, func(e *packedEntry) { e.Layout.Name = "vnni9" }))},
	{"P07b", Unsupported, "F14", "a later version of a layout",
		unsealed(entry(query, func(e *packedEntry) { e.Layout.Version = 99 }))},
	{"P07c", Unsupported, "F11", "a later version of the format", unsealed(func(f *forged) { f.Format = 99 })},
	{"P07e", Unsupported, "F11", "an earlier version of the format", unsealed(func(f *forged) { f.Format = 0 })},
	{"P07f", Unsupported, "F11", "the next version of the format, with a field that this one lacks",
		reManifest(once(`"format":2`, `"format":3,"extra":true`))},
	{"P07g", Unsupported, "F11", "a file of version 1", reManifest(func(text string) string {
		text = strings.ReplaceAll(once(`"activation":{"kind":"token"},`, "")(text), `,"dtype":"F32"},"quantizer"`,
			`},"quantizer"`)
		return once(`"format":2`, `"format":1`)(text)
	})},
	{"P07d", Unsupported, "F14", "an alphabet that nobody knows",
		unsealed(entry(query, func(e *packedEntry) { e.Layout.Alphabet = "quinary" }))},
	{"P08a", Structure, "F14", "fewer bytes than layout and shape need",
		unsealed(entry(query, func(e *packedEntry) { e.Bytes = 192 }))},
	{"P08b", Structure, "F14", "another shape than the bytes have",
		unsealed(entry(query, func(e *packedEntry) { e.Shape = []int{32, 64} }))},
	{"P08c", Limit, "F14", "a shape of 2³¹ × 2³¹",
		unsealed(entry(query, func(e *packedEntry) { e.Shape = []int{1 << 31, 1 << 31} }))},
	{"P08d", Limit, "F14", "a shape of −32 × −32",
		unsealed(entry(query, func(e *packedEntry) { e.Shape = []int{-32, -32} }))},
	{"P08e", Unsupported, "F14", "block factors that the layout has not",
		unsealed(entry(query, func(e *packedEntry) { e.Layout.Params = map[string]int{"bm": 0} }))},
	{"P09a", Structure, "F15", "the byte 243 for five ternary digits", forge(packedByte(query, 0, 243))},
	{"P09b", Structure, "F15", "the byte 81 for four ternary digits", forge(packedByte(query, 200, 81))},
	{"P10a", Structure, "F9", "a scale that is NaN", forge(scaled(math.NaN()))},
	{"P10b", Structure, "F9", "a negative scale", forge(scaled(-1))},
	{"P10c", Structure, "F9", "a scale of zero for weights that are not", forge(scaled(0))},
	{"P10d", Structure, "F9", "an infinite scale", forge(scaled(math.Inf(1)))},
	{"P10e", Structure, "F9", "scales for groups of −1 columns",
		unsealed(entry(query, func(e *packedEntry) { e.Scale = scale{Kind: "group", Group: -1, DType: "F32"} }))},
	{"P10f", Unsupported, "F9", "scales for groups of 8 columns",
		unsealed(entry(query, func(e *packedEntry) { e.Scale = scale{Kind: "group", Group: 8, DType: "F32"} }))},
	{"P10g", Unsupported, "F9", "scales of a type that nobody knows",
		unsealed(entry(query, func(e *packedEntry) { e.Scale.DType = "F64" }))},
	{"P10h", Structure, "F9", "powers of two as scales of ternary codes",
		unsealed(entry(query, func(e *packedEntry) { e.Scale.DType = "E8M0" }))},
	{"P10i", Structure, "F9", "a negative infinite scale among signed ones", forge(func(f *forged) {
		entry(query, func(e *packedEntry) { e.Scale.Signed = true })(f)
		scaled(math.Inf(-1))(f)
	})},
	{"P10j", Structure, "F9", "a scale of zero for codes that are not their zero point",
		forge(func(f *forged) { zeroed(1)(f); scaled(0)(f) })},
	{"P10k", Structure, "F11", "zero points without a digest", unsealed(func(f *forged) {
		entry(query, func(e *packedEntry) { e.Zero = true })(f)
		f.tensors[query+".zero"] = []byte{1}
	})},
	{"P10l", Structure, "F24", "an order of columns with one of them twice",
		forge(ordered(func(j int) int { return j / 2 }))},
	{"P10m", Structure, "F24", "an order with a column that does not exist",
		forge(ordered(func(j int) int { return j + 1 }))},
	{"P10n", Structure, "F24", "an order with a negative column", forge(ordered(func(j int) int { return j - 1 }))},
	{"P10q", Structure, "F25", "a minimum that is NaN", forge(minimal(math.NaN(), 32))},
	{"P10r", Structure, "F6, F7, F14", "minima of fewer rows than there are", forge(minimal(-1, 31))},
	{"P10s", Structure, "F25", "minima beside one scale of a tensor",
		unsealed(entry(query, func(e *packedEntry) { e.Min = true }))},
	{"P10t", Structure, "F25", "minima and zero points", unsealed(func(f *forged) {
		minimal(-1, 32)(f)
		entry(query, func(e *packedEntry) { e.Zero = true })(f)
		f.tensors[query+".zero"] = []byte{0}
	})},
	{"P10u", Structure, "F9", "a scale of zero for codes that are not the lowest", forge(func(f *forged) {
		minimal(-1, 32)(f)
		clear(f.tensors[query+".scale"])
	})},
	{"P10v", Structure, "F11", "minima without a digest", unsealed(minimal(-1, 32))},
	{"P10o", Unsupported, "F22", "activation scales for groups of 48 columns",
		unsealed(func(f *forged) { f.Activation = activation{"group", 48} })},
	{"P10p", Unsupported, "F22", "activation scales of a kind that nobody knows",
		unsealed(func(f *forged) { f.Activation.Kind = "row" })},
	{"P10w", Unsupported, "F22", "activations of 16 bits with one scale per token, of groups",
		unsealed(func(f *forged) { f.Activation = activation{"token16", 32} })},
	{"P10x", Unsupported, "F22", "activations of 32 bits",
		unsealed(func(f *forged) { f.Activation = activation{"token32", 0} })},
	{"P08f", Unsupported, "F14", "two experts in a layout without row panels",
		unsealed(entry(query, func(e *packedEntry) { e.Shape = []int{2, 32, 32} }))},
	{"P08g", Limit, "F14", "2⁴⁰ experts",
		unsealed(entry(query, func(e *packedEntry) { e.Shape = []int{1 << 40, 32, 32} }))},
	{"P08h", Structure, "F14", "a matrix of one dimension",
		unsealed(entry(query, func(e *packedEntry) { e.Shape = []int{32} }))},
	{"P11a", Structure, "F1–F5", "one tensor twice in the manifest",
		unsealed(func(f *forged) { f.Packed = append(f.Packed[:1:1], f.Packed...) })},
	{"P11b", Structure, "F11", "one source twice in the manifest",
		unsealed(func(f *forged) { f.Sources = append(f.Sources[:1:1], f.Sources...) })},
	{"P12a", Structure, "F1, F3", "data that do not begin at a multiple of 64",
		reworded(func(text string) string { return text + " " })},
	{"P12b", Structure, "F1, F3", "64 bytes of padding too many",
		reworded(func(text string) string { return text + strings.Repeat(" ", 64) })},
	{"P13a", Digest, "F17", "another tokenizer than the manifest says",
		unsealed(func(f *forged) { f.tensors["lowpack/tokenizer.json"][100] ^= 1 })},
	{"P13b", Digest, "F17", "the digests of two tensors are swapped", unsealed(func(f *forged) {
		a, b := &f.Plain[0], &f.Plain[1]
		a.SHA256, b.SHA256 = b.SHA256, a.SHA256
	})},
	{"P14a", Structure, "F11", "a field that nobody knows", reManifest(once(`"format":2`, `"format":2,"extra":true`))},
	{"P14b", Structure, "F11", "a space in the manifest", reManifest(once(`"format":2`, `"format": 2`))},
	{"P14c", Structure, "F11", "a manifest that is not JSON", reManifest(func(string) string { return "{" })},
	{"P14d", Structure, "F11", "100,000 brackets in the manifest",
		reManifest(func(string) string { return strings.Repeat("[", 100000) })},
	{"P15a", Structure, "F8", "golden outputs that are not an Arrow stream", forge(withGolden([]byte("golden")))},
	{"P15b", Structure, "F8", "golden outputs that say they have 2 GB",
		forge(withGolden([]byte{255, 255, 255, 255, 255, 255, 255, 127}))},
	{"P16a", Limit, "F7", "the embedded config asks for 10⁹ layers", forge(func(f *forged) {
		c := baseConfig()
		c["num_hidden_layers"] = 1000000000
		f.embed("config.json", encode(c))
	})},
	{"P16b", Structure, "F7", "the model needs a tensor that the file lacks",
		forge(func(f *forged) { f.Packed = f.Packed[:len(f.Packed)-1] })},
	{"P17a", Path, "F7", "an embedded file named ../../evil.json",
		forge(func(f *forged) { f.embed("../../evil.json", []byte("{}")) })},
	{"P17b", Path, "F7", "an embedded file with an absolute name",
		forge(func(f *forged) { f.embed("/evil.json", []byte("{}")) })},
	{"P17c", Accept, "", "a source named ../../evil.json: a name in a list, never opened",
		forge(func(f *forged) { f.Sources[0].Name = "../../evil.json" })},
	{"P18a", Accept, "", "a chat template of 10⁹ steps: counted and refused when it is used",
		forge(templated(`{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}`))},
	{"P18b", Accept, "", "a chat template that doubles a text for ever",
		forge(templated(`{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}`))},
	{"P18c", Accept, "", "a chat template that includes a file", forge(templated(`{% include '/etc/passwd' %}`))},
	{"P18d", Accept, "", "a chat template that reaches for Python",
		forge(templated(`{{ ''.__class__.__mro__[1].__subclasses__() }}`))},
}

// reManifest is the base file with another manifest text, whose digest is right.
func reManifest(change func(text string) string) func() []byte {
	return func() []byte {
		f := baseForged()
		old := string(encode(f.manifest))
		text, data := f.header()
		text = strings.Replace(text, string(encode(old)), string(encode(change(old))), 1)
		text = strings.Replace(text, sum([]byte(old)), sum([]byte(change(old))), 1)
		return frame(aligned(text), data)
	}
}
