package golden

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/pack"
)

func manifest() *packed.Manifest {
	return &packed.Manifest{Packed: []packed.Entry{
		{Name: "a.weight", Shape: []int{33, 70}, Scale: packed.Scale{Kind: packed.ScaleTensor}},
		{Name: "b.weight", Shape: []int{300, 70}, Scale: packed.Scale{Kind: packed.ScaleRow}},
		{Name: "c.weight", Shape: []int{3, 70}, Scale: packed.Scale{Kind: packed.ScaleGroup, Group: 32}},
	}}
}

func description() *model.Description {
	return &model.Description{Config: model.Config{Vocab: 100, Hidden: 10, MaxPositions: 64, BOS: 7}, Head: "head"}
}

// texts returns synthetic encodings and a conversation.
func texts() []Text {
	list := append(Texts(), Text{Name: ConversationName, Text: "<user>é"})
	for i := range list {
		list[i].Tokens = []int32{int32(i), 7, int32(i * i), 0}[:i%4]
	}
	return list
}

// fill replaces the zeros of a plan by results.
func fill(r *Record) *Record {
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range r.Products {
		p := &r.Products[i]
		for j := range p.Values {
			p.Values[j] = rnd.Int32()
		}
		p.Digest = DigestProducts(p.Values)
	}
	for i := range r.Logits {
		l := &r.Logits[i]
		for j := range l.TopTokens {
			l.TopTokens[j], l.TopLogits[j] = rnd.Int32N(100), rnd.Float32()
		}
		l.Digest = DigestLogits(l.TopLogits)
		l.Token = max(l.Token, 1)
	}
	return r
}

func plan(t *testing.T, mode packed.GoldenMode) *Record {
	t.Helper()
	r, err := Plan(mode, manifest(), description(), texts())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func encode(t testing.TB, r *Record) []byte {
	t.Helper()
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRoundTrip: an encoded record decodes to the same one, with any padding that files add; Size is known before the
// results.
func TestRoundTrip(t *testing.T) {
	for _, mode := range []packed.GoldenMode{packed.GoldenNone, packed.GoldenKernel, packed.GoldenFull} {
		r := plan(t, mode)
		size, err := r.Size()
		if err != nil {
			t.Fatal(err)
		}
		b := encode(t, fill(r))
		if len(b) != size {
			t.Errorf("%s: %d bytes, planned %d", mode, len(b), size)
		}
		if !bytes.Equal(b, encode(t, r)) {
			t.Errorf("%s: a second encoding differs", mode)
		}
		for _, padding := range []int{0, 1, 63} {
			got, err := Decode(append(bytes.Clone(b), make([]byte, padding)...))
			if err != nil {
				t.Fatalf("%s: %v", mode, err)
			}
			if d := cmp.Diff(r, got); d != "" {
				t.Errorf("%s: %s", mode, d)
			}
		}
		if _, err := Decode(append(bytes.Clone(b), make([]byte, 64)...)); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%s: 64 bytes of padding: %v", mode, err)
		}
	}
}

// TestPlan: properties of a plan.
func TestPlan(t *testing.T) {
	r := plan(t, packed.GoldenFull)
	if len(r.Products) != 6 {
		t.Fatalf("%d products", len(r.Products))
	}
	for i, p := range r.Products {
		e := manifest().Packed[i/2]
		groups := []int{1, 1, 3}[i/2]
		if p.Tensor != e.Name || p.Vectors != []int{1, 5}[i%2] || len(p.Values) != p.Vectors*groups*len(p.Rows) ||
			p.Digest == "" {
			t.Errorf("product %d: %+v", i, p)
		}
		last := int32(e.Shape[0] - 1)
		if !slices.IsSorted(p.Rows) || len(slices.Compact(slices.Clone(p.Rows))) != len(p.Rows) || p.Rows[0] != 0 ||
			p.Rows[len(p.Rows)-1] != last {
			t.Errorf("rows of product %d: %v", i, p.Rows)
		}
	}
	seeds := map[uint64]bool{}
	for _, p := range r.Products {
		seeds[p.Seed] = true
	}
	if len(seeds) != 6 {
		t.Error("two products share their activations")
	}
	count := map[string]int{}
	for _, l := range r.Logits {
		count[fmt.Sprint(l.Sequence, l.Given)]++
		if l.Position == 0 && l.Token != 7 || l.Token < 0 || l.Token >= 100 {
			t.Errorf("sequence %d, position %d: token %d", l.Sequence, l.Position, l.Token)
		}
	}
	want := map[string]int{"0 true": 1, "1 true": 8, "2 true": 32, "0 false": 16, "1 false": 16, "2 false": 16}
	if d := cmp.Diff(want, count); d != "" {
		t.Error(d)
	}
}

// TestPlanSize: larger models get smaller plans, within the budgets but never empty.
func TestPlanSize(t *testing.T) {
	for _, c := range []struct {
		codes, vocab, positions int
		digests                 bool
		logits                  int
	}{
		{1 << 20, 100, 64, true, 41 + 48},
		{1 << 20, 100, 40, true, 23 + 24},
		{1 << 20, 250000, 64, true, 23 + 24},
		{1 << 20, 300000, 64, true, 15 + 12},
		{1 << 20, 100, 3, true, 6},
		{1 << 20, 100, 2, true, 0},
		{2_084_044_800, 128256, 4096, true, 6 + 6},
		{7_000_000_000, 128256, 4096, false, 6},
	} {
		m := &packed.Manifest{Packed: []packed.Entry{{Name: "w", Shape: []int{c.codes >> 10, 1 << 10},
			Scale: packed.Scale{Kind: packed.ScaleTensor}}}}
		d := &model.Description{Config: model.Config{Vocab: c.vocab, Hidden: 2560, MaxPositions: c.positions, BOS: -1},
			Head: "head"}
		all := model.Linear{Weight: "w", In: 1 << 10, Out: c.codes >> 10}
		d.Blocks = []model.Block{{Q: all}}
		r, err := Plan(packed.GoldenFull, m, d, nil)
		if err != nil {
			t.Fatal(err)
		}
		if (r.Products[0].Digest != "") != c.digests || len(r.Logits) != c.logits {
			t.Errorf("%d codes, %d positions: digests %v, %d positions", c.codes, c.positions,
				r.Products[0].Digest != "",
				len(r.Logits))
		}
	}
}

// TestNoModel: weights without a model have products only.
func TestNoModel(t *testing.T) {
	r, err := Plan(packed.GoldenFull, manifest(), nil, texts())
	if err != nil || len(r.Logits) != 0 || len(r.Products) != 6 {
		t.Errorf("%v, %d positions, %d products", err, len(r.Logits), len(r.Products))
	}
	if err := packed.GoldenMode("some").Check(); !errors.Is(err, pack.ErrUnsupported) {
		t.Error(err)
	}
}

// TestVectors pins the derivation of activations, since files record only the seed. The first vector is from
// testdata/vectors/goldens_sha256.json.
func TestVectors(t *testing.T) {
	v := Vectors(1, 5, 6)
	want := [][]int8{{91, -19, -112, -90, -82, 14}, {127, 127, 127, 127, 127, 127},
		{-127, -127, -127, -127, -127, -127},
		{-127, -127, 127, 127, -127, -127}, {-60, -121, -95, -120, -51, -33}}
	if d := cmp.Diff(want, v); d != "" {
		t.Error(d)
	}
	seen := map[int8]bool{}
	for _, q := range Vectors(2, 1, 100000)[0] {
		seen[q] = true
	}
	if len(seen) != 255 || seen[-128] {
		t.Errorf("%d values; −128 among them: %v", len(seen), seen[-128])
	}
}

// TestDamage: every single-bit flip and every truncation of a stream is rejected or decodes to a different record.
// Without LOWPACK_LONG, one varying bit per byte and a third of the truncations are tested.
func TestDamage(t *testing.T) {
	r := fill(plan(t, packed.GoldenFull))
	r.Products, r.Logits, r.Texts = r.Products[4:5], r.Logits[:1], r.Texts[5:6]
	b := encode(t, r)
	same := func(b []byte) bool {
		got, err := Decode(b)
		if err != nil && !errors.Is(err, pack.ErrCorrupt) {
			t.Fatalf("an error without class: %v", err)
		}
		return err == nil && reflect.DeepEqual(got, r)
	}
	for i := range 8 * len(b) {
		if (!long.All || i/8 < len(schemaMessage())) && i%8 != (i/8+i/64)%8 {
			continue // the schema is compared bytewise: one bit per byte suffices
		}
		b[i/8] ^= 1 << (i % 8)
		if same(b) {
			t.Errorf("bit %d of byte %d was flipped unseen", i%8, i/8)
		}
		b[i/8] ^= 1 << (i % 8)
	}
	step := 3
	if long.All {
		step = 1
	}
	for n := 0; n < len(b); n += step {
		if same(b[:n]) {
			t.Errorf("%d of %d bytes were read as the whole", n, len(b))
		}
	}
}

// TestEarlierVersions: versions 1 and 2 are rejected with the remedy.
func TestEarlierVersions(t *testing.T) {
	for i, version := range []string{"version 1", "version 2"} {
		b := append(bytes.Clone(earlierMessages()[i]), 255, 255, 255, 255, 0, 0, 0, 0)
		if _, err := Decode(b); !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), version+",") ||
			!strings.Contains(err.Error(), "convert the checkpoint again") {
			t.Error(err)
		}
	}
	if err := CheckVersion(encode(t, plan(t, packed.GoldenFull))); err != nil {
		t.Error(err)
	}
}

// TestFollows: texts must be complete and in order, or absent; package verify tests the other parts of a record.
func TestFollows(t *testing.T) {
	p := plan(t, packed.GoldenFull)
	for _, c := range []struct {
		name  string
		texts []Text
		want  []Text
		ok    bool
	}{
		{"all", texts(), texts(), true}, {"without conversation", texts()[:9], texts()[:9], true},
		{"none", nil, nil, true},
		{"none of some", nil, texts(), false}, {"some of none", texts(), nil, false},
		{"one less", texts()[1:], texts()[1:], false},
		{"another text", append(texts()[:8:8], Text{Name: "control tokens as text", Plain: true}), texts()[:9], false},
		{"another order", append(texts()[1:9:9], texts()[0]), texts()[:9], false},
	} {
		r := fill(plan(t, packed.GoldenFull))
		for i := range r.Logits {
			if !r.Logits[i].Given {
				r.Logits[i].Token = r.Logits[i-1].TopTokens[0]
			} else {
				r.Logits[i].Token = p.Logits[i].Token
			}
		}
		r.Texts, p.Texts = c.texts, c.want
		if err := r.Follows(p); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, mode := range []packed.GoldenMode{packed.GoldenNone, packed.GoldenKernel, packed.GoldenFull} {
		r, err := Plan(mode, manifest(), description(), texts())
		if err != nil {
			f.Fatal(err)
		}
		r.Products = r.Products[:min(1, len(r.Products))]
		r.Logits, r.Texts = r.Logits[:min(2, len(r.Logits))], r.Texts[:min(2, len(r.Texts))]
		f.Add(encode(f, fill(r)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err != nil {
			return
		}
		if again := encode(t, r); !bytes.Equal(again, b[:len(again)]) {
			t.Error("accepted, but not canonical")
		}
	})
}
