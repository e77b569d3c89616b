package gguf

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/seed"
	"github.com/lowpack/lowpack/pack"
)

// recorded are block rows with the results of Python's gguf package (testdata/blocks.py).
type recorded struct {
	Type   string `json:"type"`
	From   string `json:"from"`
	Rows   int    `json:"rows"`
	Data   []byte `json:"data"`
	Values []byte `json:"values"`
}

func typeOf(t *testing.T, name string) Type {
	t.Helper()
	for id, tr := range allTraits {
		if tr.name == name {
			return id
		}
	}
	t.Fatalf("no type %s", name)
	return 0
}

// TestBlocks: every recorded row decodes to the same floats, bit for bit.
func TestBlocks(t *testing.T) {
	text, err := os.ReadFile("testdata/blocks.json")
	if err != nil {
		t.Fatal(err)
	}
	sameValues(t, text, 29)
}

// TestInteropGrids: blocks with every vector of a grid, every sign and scale, and float16 numbers from the smallest to
// the largest have the same floats, bit for bit.
func TestInteropGrids(t *testing.T) {
	sameValues(t, interop.Python(t, "gguf", "testdata/grids.py"), 8)
}

// sameValues compares at least some records with what is decoded.
func sameValues(t *testing.T, text []byte, least int) {
	t.Helper()
	var list []recorded
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	if len(list) < least {
		t.Fatalf("%d records", len(list))
	}
	for _, r := range list {
		id := typeOf(t, r.Type)
		columns := len(r.Values) / 4 / r.Rows
		size := int(id.RowSize(int64(columns)))
		if size*r.Rows != len(r.Data) {
			t.Fatalf("%s: a row has %d bytes, %d rows have %d", r.Type, size, r.Rows, len(r.Data))
		}
		for m := range r.Rows {
			got := make([]float32, columns)
			if err := id.Floats(got, r.Data[m*size:][:size]); err != nil {
				t.Fatalf("%s: %v", r.Type, err)
			}
			for k, x := range got {
				want := math.Float32frombits(binary.LittleEndian.Uint32(r.Values[4*(m*columns+k):]))
				if x != want {
					t.Fatalf("%s from %s: row %d, column %d: %v, want %v", r.Type, r.From, m, k, x, want)
				}
			}
		}
	}
}

func TestInteropBlocks(t *testing.T) {
	interop.Recorded(t, "testdata/blocks.json", interop.Python(t, "gguf", "testdata/blocks.py"))
}

// TestExchangeFormats: blocks written by package pack decode to the same codes and scales.
func TestExchangeFormats(t *testing.T) {
	r := seed.Rand(t)
	for id, name := range map[Type]string{Q4_0: "q4_0", Q8_0: "q8_0", TQ1_0: "tq1_0", TQ2_0: "tq2_0", Q1_0: "q1_0",
		Q2_0: "q2_0", MXFP4: "mxfp4"} {
		b, err := pack.OpenBlocks(name)
		if err != nil {
			t.Fatal(err)
		}
		c, _ := id.Codes()
		m := pack.NewMatrix(pack.Shape{M: 1, K: 512}, c.Alphabet)
		for i := range m.Codes {
			m.Codes[i] = c.Alphabet.Values[r.IntN(len(c.Alphabet.Values))]
		}
		scales := make([]float32, 512/b.BlockSize())
		for i := range scales {
			scales[i] = float32(math.Ldexp(1, -i))
		}
		row := make([]byte, id.RowSize(512))
		if err := b.PackBlocks(row, m, scales); err != nil {
			t.Fatal(err)
		}
		codes, got := make([]int8, 512), make([]float32, len(scales))
		if err := id.DecodeRow(codes, got, nil, row); err != nil || !slices.Equal(codes, m.Codes) ||
			!slices.Equal(got, scales) || c.Group != b.BlockSize() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForks encodes the types of llama.cpp forks by their definitions and decodes them.
func TestForks(t *testing.T) {
	r, codes := seed.Rand(t), make([]int8, 128)
	for i := range codes {
		codes[i] = int8(r.IntN(3)) - 1
	}
	up := func(i int) int { return int(codes[i]) + 1 }
	fifths := func(at ...int) byte { // the first column most significant
		v := 0
		for n := range 5 {
			v *= 3
			if n < len(at) {
				v += up(at[n])
			}
		}
		return byte((v*256 + 242) / 243)
	}
	scale := binary.LittleEndian.AppendUint16(nil, float16.Narrow(0.25))
	var pq, ptq []byte
	pq = append(pq, scale...)
	for i := 0; i < 128; i += 4 {
		pq = append(pq, byte(up(i)|up(i+1)<<2|up(i+2)<<4|up(i+3)<<6))
	}
	for b := range 16 {
		ptq = append(ptq, fifths(b, b+16, b+32, b+48, b+64))
	}
	for b := range 8 {
		ptq = append(ptq, fifths(80+b, 88+b, 96+b, 104+b, 112+b))
	}
	for b := range 2 {
		ptq = append(ptq, fifths(120+b, 122+b, 124+b, 126+b))
	}
	ptq = append(ptq, scale...)
	two := binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.3))
	one := slices.Clone(scale)
	for block := 0; block < 128; block += 64 {
		for j := range 16 {
			two = append(two, byte(up(block+j)|up(block+j+16)<<2|up(block+j+32)<<4|up(block+j+48)<<6))
		}
		last := [4]int{}
		for i := range 4 {
			at := block + 16*i
			for g := range 3 { // the last column of five most significant
				one = append(one, fifths(at+5*g+4, at+5*g+3, at+5*g+2, at+5*g+1, at+5*g))
			}
			last[i] = at + 15
		}
		v := up(last[0]) + 3*up(last[1]) + 9*up(last[2]) + 27*up(last[3])
		one = append(one, byte((v*256+242)/243))
	}
	for id, row := range map[Type][]byte{PQ2_0: pq, Q2_0G128: pq, PTQ1_0: ptq, IQ1_BN: one, IQ2_BN: two} {
		got, scales := make([]int8, 128), make([]float32, 1)
		want := float32(0.25)
		if id == IQ2_BN {
			want = 0.3
		}
		if err := id.DecodeRow(got, scales, nil, row); err != nil || !slices.Equal(got, codes) || scales[0] != want {
			t.Errorf("%s: %v, scale %v\n%v\n%v", id, err, scales, got, codes)
		}
	}
}

// TestI2S decodes the three packings.
func TestI2S(t *testing.T) {
	shape := pack.Shape{M: 8, K: 128}
	r, m := seed.Rand(t), pack.NewMatrix(shape, pack.Ternary)
	for i := range m.Codes {
		m.Codes[i] = int8(r.IntN(3)) - 1
	}
	for _, packing := range []string{"i2s", "i2s-arm", "i2s-rows4"} {
		l, err := pack.Open(pack.Spec{Name: packing})
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, shape.M*shape.K/4)
		if err := l.Pack(data, m); err != nil {
			t.Fatal(err)
		}
		n, err := I2SPanel(packing, 8, 128)
		if err != nil {
			t.Fatal(err)
		}
		for row := int64(0); row < 8; row += n {
			got := make([]int8, n*128)
			err := DecodeI2S(got, packing, 128, data[row*32:][:n*32])
			if err != nil || !slices.Equal(got, m.Codes[row*128:][:n*128]) {
				t.Errorf("%s: row %d: %v", packing, row, err)
			}
		}
	}
	tail := pack.I2STail(0.7)
	if s, err := I2SScale(tail[:]); err != nil || s != 0.7 {
		t.Error(s, err)
	}
	for _, err := range []error{fails(I2SPanel("i2s", 8, 64)), fails(I2SPanel("i2s-rows4", 7, 64)),
		fails(I2SPanel("x", 8, 128))} {
		if !errors.Is(err, pack.ErrUnsupported) {
			t.Error(err)
		}
	}
}

func fails[T any](_ T, err error) error { return err }

// TestBadBlocks: NaN, infinities and invalid codes are rejected.
func TestBadBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		id   Type
		at   int
		with []byte
	}{
		"scale NaN":        {Q4_0, 0, []byte{0, 0x7e}},
		"minimum infinite": {Q4_1, 2, []byte{0, 0x7c}},
		"E8M0 NaN":         {MXFP4, 0, []byte{255}},
		"TQ2_0 code 3":     {TQ2_0, 5, []byte{0xff}},
		"IQ2_BN code 3":    {IQ2_BN, 5, []byte{0xff}},
		"F32 NaN":          {F32, 0, []byte{0, 0, 0xc0, 0x7f}},
		"Q4_K infinite":    {Q4_K, 0, []byte{0, 0x7c}},
		"IQ4_XS infinite":  {IQ4_XS, 0, []byte{0, 0x7c}},
		"IQ1_S infinite":   {IQ1_S, 0, []byte{0, 0x7c}},
		"IQ1_M NaN":        {IQ1_M, 53, []byte{0xf0, 0, 0x70}},
		"IQ2_XXS infinite": {IQ2_XXS, 0, []byte{0, 0xfc}},
		"IQ2_XS NaN":       {IQ2_XS, 0, []byte{1, 0x7c}},
		"IQ2_S infinite":   {IQ2_S, 0, []byte{0, 0x7c}},
		"IQ3_XXS infinite": {IQ3_XXS, 0, []byte{0, 0x7c}},
		"IQ3_S NaN":        {IQ3_S, 0, []byte{0, 0x7e}},
		"NVFP4 NaN":        {NVFP4, 39, []byte{0x7f}},
		"NVFP4 negative":   {NVFP4, 36, []byte{0x80}},
	} {
		row := make([]byte, c.id.RowSize(256))
		if c.id == TQ2_0 || c.id == IQ2_BN {
			for i := range row {
				row[i] = 0x55
			}
		}
		values := make([]float32, 256)
		if err := c.id.Floats(values, row); err != nil {
			t.Errorf("%s: before: %v", name, err)
		}
		copy(row[c.at:], c.with)
		if err := c.id.Floats(values, row); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.id.Floats(values, row[1:]); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%s: short row: %v", name, err)
		}
	}
	if err := Type(15).Floats(make([]float32, 256), make([]byte, 292)); !errors.Is(err, pack.ErrUnsupported) {
		t.Error(err)
	}
}
