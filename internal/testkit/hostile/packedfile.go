package hostile

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
)

// forged is a packed file in the making: docs/FORMAT.md once more, in a form that can be told to break its rules.
type forged struct {
	manifest
	tensors map[string][]byte // as stored, by stored name
}

type manifest struct {
	Format int    `json:"format"`
	Tool   string `json:"tool"`
	Family string `json:"family"`

	Activation activation `json:"activation"`

	Packed  []packedEntry `json:"packed"`
	Plain   []plainEntry  `json:"plain"`
	Golden  string        `json:"golden"`
	Sources []sourceEntry `json:"sources"`
	Recipe  recipe        `json:"recipe"`
}

type packedEntry struct {
	Name      string `json:"name"`
	Shape     []int  `json:"shape"`
	Layout    layout `json:"layout"`
	Bytes     int    `json:"bytes"`
	Scale     scale  `json:"scale"`
	Zero      bool   `json:"zero,omitempty"`
	Min       bool   `json:"min,omitempty"`
	Order     bool   `json:"order,omitempty"`
	Quantizer string `json:"quantizer"`
	SHA256    string `json:"sha256"`
	ScaleSHA  string `json:"scale_sha256"`
	ZeroSHA   string `json:"zero_sha256,omitempty"`
	MinSHA    string `json:"min_sha256,omitempty"`
	OrderSHA  string `json:"order_sha256,omitempty"`
	CodesSHA  string `json:"codes_sha256"`
	codes     []int8
}

type scale struct {
	Kind   string `json:"kind"`
	Group  int    `json:"group,omitempty"`
	DType  string `json:"dtype"`
	Signed bool   `json:"signed,omitempty"`
}

type activation struct {
	Kind string `json:"kind"`
	Size int    `json:"size,omitempty"`
}

type layout struct {
	Name     string         `json:"name"`
	Version  int            `json:"version"`
	Alphabet string         `json:"alphabet"`
	Params   map[string]int `json:"params,omitempty"`
}

type plainEntry struct {
	Name   string `json:"name"`
	DType  string `json:"dtype"`
	Shape  []int  `json:"shape"`
	SHA256 string `json:"sha256"`
}

type sourceEntry struct {
	Name   string `json:"name"`
	Size   int    `json:"size"`
	SHA256 string `json:"sha256"`
}

type recipe struct {
	Quant  string `json:"quant"`
	Layout string `json:"layout"`
	Golden string `json:"golden"`
}

// baseForged is the base model with made-up ternary weights in layout i1, without golden outputs.
func baseForged() *forged {
	f := &forged{tensors: map[string][]byte{}}
	f.Format, f.Tool, f.Family, f.Activation, f.Recipe = 2, "hostile", "bitnet", activation{"token", 0}, recipe{"auto",
		"i1", "none"}
	shapes := baseShapes()
	for i, name := range allNames() {
		shape := shapes[name]
		if !strings.HasSuffix(name, "_proj.weight") {
			f.keep(name, "BF16", shape, bytesOf(name))
			continue
		}
		e := packedEntry{Name: name, Shape: []int{shape[0], shape[1]}, Layout: layout{"i1", 1, "ternary", nil},
			Scale: scale{Kind: "tensor", DType: "F32"}, Quantizer: "absmean"}
		for k := range shape[0] * shape[1] {
			e.codes = append(e.codes, int8((k*5+k/7+i)%3-1))
		}
		f.Packed = append(f.Packed, e)
		f.pack(len(f.Packed) - 1)
		f.tensors[name+".scale"] = binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.5))
	}
	f.embed("config.json", encode(baseConfig()))
	f.embed("tokenizer.json", encode(baseTokenizer()))
	f.sortPlain()
	f.Sources = []sourceEntry{{"config.json", 1, sum(nil)}, {"model.safetensors", 1, sum(nil)},
		{"tokenizer.json", 1, sum(nil)}}
	f.seal()
	return f
}

// bytesOf are the weights of a tensor of the base model.
func bytesOf(name string) []byte {
	b := shard([]string{name})
	return b[8+binary.LittleEndian.Uint64(b):]
}

func (f *forged) keep(name, dtype string, shape []int, data []byte) {
	f.Plain = append(f.Plain, plainEntry{name, dtype, shape, ""})
	f.tensors[name] = data
}

func (f *forged) embed(name string, text []byte) {
	name = "lowpack/" + name
	f.Plain = slices.DeleteFunc(f.Plain, func(p plainEntry) bool { return p.Name == name })
	f.keep(name, "U8", []int{len(text)}, text)
}

// pack stores the codes of an entry in layout i1: five columns of a row to a byte in base 3, then four.
func (f *forged) pack(i int) {
	e := &f.Packed[i]
	m, k := e.Shape[0], e.Shape[1]
	fives := k / 20 * 4
	e.Bytes = m * (fives + (k-5*fives)/4)
	b := make([]byte, (e.Bytes+63)/64*64)
	for row := range m {
		for column := range k {
			group, digit := column/5, column%5
			if column >= 5*fives {
				group, digit = fives+(column-5*fives)/4, (column-5*fives)%4
			}
			b[group*m+row] += byte(e.codes[row*k+column]+1) * [...]byte{1, 3, 9, 27, 81}[digit]
		}
	}
	f.tensors[e.Name+".packed"] = b
}

// sortPlain puts the passthrough tensors in the order of F7.
func (f *forged) sortPlain() {
	slices.SortFunc(f.Plain, func(a, b plainEntry) int {
		return cmp.Or(cmp.Compare(elementSize[b.DType], elementSize[a.DType]), cmp.Compare(a.Name, b.Name))
	})
}

var elementSize = map[string]int{"F32": 4, "I32": 4, "I8": 1, "BF16": 2, "U8": 1}

// seal computes every digest.
func (f *forged) seal() {
	for i := range f.Packed {
		e := &f.Packed[i]
		e.SHA256, e.ScaleSHA = sum(f.tensors[e.Name+".packed"]), sum(f.tensors[e.Name+".scale"])
		if e.Zero {
			e.ZeroSHA = sum(f.tensors[e.Name+".zero"])
		}
		if e.Min {
			e.MinSHA = sum(f.tensors[e.Name+".min"])
		}
		if e.Order {
			e.OrderSHA = sum(f.tensors[e.Name+".order"])
		}
		e.CodesSHA = e.codesDigest()
	}
	for i := range f.Plain {
		f.Plain[i].SHA256 = sum(f.tensors[f.Plain[i].Name])
	}
	if f.Golden != "" {
		f.Golden = sum(f.tensors["lowpack/golden"])
	}
}

// codesDigest is F12, for ternary codes: two bits each.
func (e *packedEntry) codesDigest() string {
	text := fmt.Appendf(nil, "lowpack codes v2\nternary %d %d\n", e.Shape[0], e.Shape[1])
	k := e.Shape[1]
	for row := range slices.Chunk(e.codes, k) {
		b := make([]byte, (k+3)/4)
		for column, code := range row {
			b[column%len(b)] |= byte(code+1) << (2 * (column / len(b)))
		}
		text = append(text, b...)
	}
	return sum(text)
}

func sum(b []byte) string {
	d := sha256.Sum256(b)
	return hex.EncodeToString(d[:])
}

// stored is one tensor of the header.
type stored struct {
	name, dtype string
	shape       []int
}

// inOrder lists the tensors as F6 to F8 order them.
func (f *forged) inOrder() (list []stored) {
	var rest []stored
	for _, e := range f.Packed {
		list = append(list, stored{e.Name + ".packed", "U8", []int{len(f.tensors[e.Name+".packed"])}})
		units := func(suffix string) []int {
			shape := []int{len(f.tensors[e.Name+suffix]) / 4}
			if e.Min { // of one group, which is a row
				shape = append(shape, 1)
			}
			return shape
		}
		rest = append(rest, stored{e.Name + ".scale", "F32", units(".scale")})
		if e.Zero {
			rest = append(rest, stored{e.Name + ".zero", "I8", []int{1}})
		}
		if e.Min {
			rest = append(rest, stored{e.Name + ".min", "F32", units(".min")})
		}
		if e.Order {
			rest = append(rest, stored{e.Name + ".order", "I32", []int{e.Shape[1]}})
		}
	}
	for _, p := range f.Plain {
		rest = append(rest, stored{p.Name, p.DType, p.Shape})
	}
	slices.SortStableFunc(rest, func(a, b stored) int {
		return cmp.Or(cmp.Compare(elementSize[b.dtype], elementSize[a.dtype]), cmp.Compare(a.name, b.name))
	})
	list = append(list, rest...)
	if golden, ok := f.tensors["lowpack/golden"]; ok {
		list = append(list, stored{"lowpack/golden", "U8", []int{len(golden)}})
	}
	return list
}

// header is the JSON of the header, and data what follows it.
func (f *forged) header() (text string, data []byte) {
	m := string(encode(f.manifest))
	var b strings.Builder
	fmt.Fprintf(&b, `{"__metadata__":{"format":"lowpack","lowpack.manifest":%s,"lowpack.manifest.sha256":"%s"}`,
		encode(m),
		sum([]byte(m)))
	for _, s := range f.inOrder() {
		begin := len(data)
		data = append(data, f.tensors[s.name]...)
		fmt.Fprintf(&b, `,%s:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`, encode(s.name), s.dtype,
			encode(s.shape),
			begin, len(data))
	}
	return b.String() + "}", data
}

// aligned pads a header so that the data begin at a multiple of 64 bytes.
func aligned(text string) string { return text + strings.Repeat(" ", (64-(8+len(text))%64)%64) }

func (f *forged) bytes() []byte {
	text, data := f.header()
	return frame(aligned(text), data)
}
