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
	query = "model.layers.0.self_attn.q_proj.weight" // [32, 32]: 224 packed bytes and 32 of padding; four groups of five columns, three of four
	down  = "model.layers.0.mlp.down_proj.weight"    // [32, 64], the first tensor
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
		cases = append(cases, Case{ID: c.id, Group: Packed, Class: c.class, Rule: c.rule, Note: c.note, build: asFile(c.file)})
	}
	return cases
}

var packedCases = []packedCase{
	{"P00", Accept, "", "control: the base model, packed", forge(func(*forged) {})},
	{"P01a", Syntax, "F1–F5", "cut within the header", damaged(func(b []byte) []byte { return b[:1000] })},
	{"P01b", Structure, "F1–F5", "cut within the data", damaged(func(b []byte) []byte { return b[:len(b)-100] })},
	{"P02a", Digest, "F17", "one bit of a weight", damaged(func(b []byte) []byte { b[8+binary.LittleEndian.Uint64(b)+5] ^= 1; return b })},
	{"P02b", Digest, "F4", "one digit of the manifest", reworded(once(`\"bytes\":416`, `\"bytes\":417`))},
	{"P03a", Syntax, "F1–F5", "the header is longer than the file", damaged(func(b []byte) []byte { binary.LittleEndian.PutUint64(b, uint64(len(b))); return b })},
	{"P03b", Limit, "F1–F5", "the header has 2⁶⁴ − 64 bytes", damaged(func(b []byte) []byte { binary.LittleEndian.PutUint64(b, 1<<64-64); return b })},
	{"P04", Structure, "F1–F5", "two tensors in one place", reworded(once(`[448,896]`, `[0,448]`))},
	{"P05a", Structure, "F1–F5", "a tensor at 2⁶⁴ − 448, over the manifest", reworded(once(`[0,448]`, `[18446744073709551168,0]`))},
	{"P05b", Structure, "F1–F5", "a tensor behind the end of the file", reworded(once(`[0,448]`, `[99999552,100000000]`))},
	{"P06a", Structure, "F1–F5", "bytes between two tensors", lastMoved},
	{"P06b", Structure, "F15", "padding of a packed tensor that is not zero", forge(packedByte(query, 255, 1))},
	{"P07a", Unsupported, "F14", "a layout that nobody knows", unsealed(entry(query, func(e *packedEntry) { e.Layout.Name = "vnni9" }))},
	{"P07b", Unsupported, "F14", "a later version of a layout", unsealed(entry(query, func(e *packedEntry) { e.Layout.Version = 99 }))},
	{"P07c", Unsupported, "F11", "a later version of the format", unsealed(func(f *forged) { f.Format = 99 })},
	{"P07e", Unsupported, "F11", "an earlier version of the format", unsealed(func(f *forged) { f.Format = 0 })},
	{"P07f", Unsupported, "F11", "the next version of the format, with a field that this one lacks", reManifest(once(`"format":1`, `"format":2,"extra":true`))},
	{"P07d", Unsupported, "F14", "an alphabet that nobody knows", unsealed(entry(query, func(e *packedEntry) { e.Layout.Alphabet = "quinary" }))},
	{"P08a", Structure, "F14", "fewer bytes than layout and shape need", unsealed(entry(query, func(e *packedEntry) { e.Bytes = 192 }))},
	{"P08b", Structure, "F14", "another shape than the bytes have", unsealed(entry(query, func(e *packedEntry) { e.Shape = [2]int{32, 64} }))},
	{"P08c", Limit, "F14", "a shape of 2³¹ × 2³¹", unsealed(entry(query, func(e *packedEntry) { e.Shape = [2]int{1 << 31, 1 << 31} }))},
	{"P08d", Limit, "F14", "a shape of −32 × −32", unsealed(entry(query, func(e *packedEntry) { e.Shape = [2]int{-32, -32} }))},
	{"P08e", Unsupported, "F14", "block factors that the layout has not", unsealed(entry(query, func(e *packedEntry) { e.Layout.Params = map[string]int{"bm": 0} }))},
	{"P09a", Structure, "F15", "the byte 243 for five ternary digits", forge(packedByte(query, 0, 243))},
	{"P09b", Structure, "F15", "the byte 81 for four ternary digits", forge(packedByte(query, 200, 81))},
	{"P10a", Structure, "F9", "a scale that is NaN", forge(scaled(math.NaN()))},
	{"P10b", Structure, "F9", "a negative scale", forge(scaled(-1))},
	{"P10c", Structure, "F9", "a scale of zero for weights that are not", forge(scaled(0))},
	{"P10d", Structure, "F9", "an infinite scale", forge(scaled(math.Inf(1)))},
	{"P10e", Structure, "F9", "scales for groups of −1 columns", unsealed(entry(query, func(e *packedEntry) { e.Scale = scale{"group", -1} }))},
	{"P11a", Structure, "F1–F5", "one tensor twice in the manifest", unsealed(func(f *forged) { f.Packed = append(f.Packed[:1:1], f.Packed...) })},
	{"P11b", Structure, "F11", "one source twice in the manifest", unsealed(func(f *forged) { f.Sources = append(f.Sources[:1:1], f.Sources...) })},
	{"P12a", Structure, "F1, F3", "data that do not begin at a multiple of 64", reworded(func(text string) string { return text + " " })},
	{"P12b", Structure, "F1, F3", "64 bytes of padding too many", reworded(func(text string) string { return text + strings.Repeat(" ", 64) })},
	{"P13a", Digest, "F17", "another tokenizer than the manifest says", unsealed(func(f *forged) { f.tensors["lowpack/tokenizer.json"][100] ^= 1 })},
	{"P13b", Digest, "F17", "the digests of two tensors are swapped", unsealed(func(f *forged) {
		a, b := &f.Plain[0], &f.Plain[1]
		a.SHA256, b.SHA256 = b.SHA256, a.SHA256
	})},
	{"P14a", Structure, "F11", "a field that nobody knows", reManifest(once(`"format":1`, `"format":1,"extra":true`))},
	{"P14b", Structure, "F11", "a space in the manifest", reManifest(once(`"format":1`, `"format": 1`))},
	{"P14c", Structure, "F11", "a manifest that is not JSON", reManifest(func(string) string { return "{" })},
	{"P14d", Structure, "F11", "100,000 brackets in the manifest", reManifest(func(string) string { return strings.Repeat("[", 100000) })},
	{"P15a", Structure, "F8", "golden outputs that are not an Arrow stream", forge(withGolden([]byte("golden")))},
	{"P15b", Structure, "F8", "golden outputs that say they have 2 GB", forge(withGolden([]byte{255, 255, 255, 255, 255, 255, 255, 127}))},
	{"P16a", Limit, "F7", "the embedded config asks for 10⁹ layers", forge(func(f *forged) {
		c := baseConfig()
		c["num_hidden_layers"] = 1000000000
		f.embed("config.json", encode(c))
	})},
	{"P16b", Structure, "F7", "the model needs a tensor that the file lacks", forge(func(f *forged) { f.Packed = f.Packed[:len(f.Packed)-1] })},
	{"P17a", Path, "F7", "an embedded file named ../../evil.json", forge(func(f *forged) { f.embed("../../evil.json", []byte("{}")) })},
	{"P17b", Path, "F7", "an embedded file with an absolute name", forge(func(f *forged) { f.embed("/evil.json", []byte("{}")) })},
	{"P17c", Accept, "", "a source named ../../evil.json: a name in a list, never opened", forge(func(f *forged) { f.Sources[0].Name = "../../evil.json" })},
	{"P18a", Accept, "", "a chat template of 10⁹ steps: counted and refused when it is used", forge(templated(`{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}`))},
	{"P18b", Accept, "", "a chat template that doubles a text for ever", forge(templated(`{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}`))},
	{"P18c", Accept, "", "a chat template that includes a file", forge(templated(`{% include '/etc/passwd' %}`))},
	{"P18d", Accept, "", "a chat template that reaches for Python", forge(templated(`{{ ''.__class__.__mro__[1].__subclasses__() }}`))},
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
