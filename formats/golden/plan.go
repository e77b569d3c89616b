package golden

import (
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// batch is the number of vectors in the second product of a tensor: it covers all kinds of Vectors and is not a
// multiple of any kernel tile.
const batch = 5

// listed limits the listed values per vector, so that records stay small compared to the weights.
const listed = 64

// top is the number of largest logits that are listed.
const top = 20

// A plan stays within a fixed budget on every machine, since it is part of a file whose bytes never vary. One unit is
// about one nanosecond of a current core in plain Go.
const (
	unpackCost    = 4             // units to unpack one code
	tripleCost    = 1             // units to multiply one code by three activations
	floatCost     = 1             // units to multiply one float
	productBudget = 4_000_000_000 // codes
	logitsBudget  = 40_000_000_000
)

// logitsHeld limits the logits held in memory at once, of all given tokens: 24 MB.
const logitsHeld = 6_000_000

// sizes lists the lengths of the three sequences and the number of generated tokens after each, largest plan first. The
// last one is used at any cost: every model has logits to check.
var sizes = []struct {
	lengths   [3]int
	generated int
}{
	{[3]int{1, 8, 32}, 16}, {[3]int{1, 6, 16}, 8}, {[3]int{1, 4, 10}, 4}, {[3]int{1, 2, 3}, 2}, {[3]int{1, 2, 3}, 1},
	{[3]int{1, 2, 3}, 0},
}

// Plan chooses what to record for a file with manifest m, and for its model d (nil = none). The result has zeros in
// place of results, except for texts, which are the output of the model's tokenizer (package texts).
func Plan(mode packed.GoldenMode, m *packed.Manifest, d *model.Description, texts []Text) (*Record, error) {
	r := &Record{}
	if mode == packed.GoldenNone {
		return r, nil
	}
	codes := int64(0)
	for i := range m.Packed {
		codes += m.Packed[i].Weights()
	}
	values := 0
	for i := range m.Packed {
		if values += r.planProducts(m, &m.Packed[i], codes <= productBudget); values > MaxSize/4 {
			return nil, fmt.Errorf("%w: golden products have %d values in the first %d tensors: too many groups of "+
				"scales; use --golden none", pack.ErrLimit, values, i+1)
		}
	}
	if mode == packed.GoldenFull && d != nil {
		r.planLogits(m, d)
		r.Texts = texts
	}
	return r, nil
}

// planProducts plans the products of a tensor and returns the number of listed values.
func (r *Record) planProducts(m *packed.Manifest, e *packed.Entry, whole bool) (values int) {
	groups := m.Blocks(e)
	for _, n := range []int{1, batch} {
		p := Product{Tensor: e.Name, Seed: seedOf(fmt.Sprintf("lowpack golden product %d\n%s", n, e.Name)), Vectors: n}
		p.Expert = int32(random(p.Seed, 0) % uint64(e.Experts()))
		p.Rows = chooseRows(e.MatrixShape().M, max(4, listed/groups), seedOf("lowpack golden rows\n"+e.Name))
		p.Values = make([]int32, n*groups*len(p.Rows))
		if whole {
			p.Digest = noDigest
		}
		r.Products = append(r.Products, p)
		values += len(p.Values)
	}
	return values
}

// chooseRows selects at most n of m rows, ascending: the first two, the last two and random ones.
func chooseRows(m, n int, seed uint64) []int32 {
	rows := []int32{0, int32(min(1, m-1)), int32(max(0, m-2)), int32(m - 1)}
	for i := range n - len(rows) {
		rows = append(rows, int32(random(seed, i)%uint64(m)))
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}

func (r *Record) planLogits(m *packed.Manifest, d *model.Description) {
	quantized, floats := weights(m, d)
	pass := func(tokens int64) int64 {
		return quantized*(unpackCost+tripleCost*((tokens+2)/3)) + floats*(1+floatCost*tokens)
	}
	for i, s := range sizes {
		longest := s.lengths[2] + s.generated
		if n := d.FixedPositions(); n > 0 && longest > n {
			continue
		}
		given := int64(s.lengths[0] + s.lengths[1] + s.lengths[2])
		cost := pass(given) + int64(s.generated)*pass(int64(len(s.lengths)))
		if i < len(sizes)-1 && (cost > logitsBudget || given*int64(d.Vocab) > logitsHeld) {
			continue
		}
		for sequence, n := range s.lengths {
			r.planSequence(d, sequence, n, s.generated)
		}
		return
	}
}

func (r *Record) planSequence(d *model.Description, sequence, n, generated int) {
	seed := seedOf(fmt.Sprintf("lowpack golden sequence %d", sequence))
	for i, token := range append(tokens(seed, n, d.Vocab, d.BOS), make([]int32, generated)...) {
		k := min(top, d.Vocab)
		r.Logits = append(r.Logits, Logits{
			Sequence: sequence, Seed: seed, Position: int32(i), Token: token, Given: i < n,
			Digest: noDigest, TopTokens: make([]int32, k), TopLogits: make([]float32, k),
		})
	}
}

// weights counts the weights that one token is multiplied with.
func weights(m *packed.Manifest, d *model.Description) (quantized, floats int64) {
	isPacked := map[string]bool{}
	for i := range m.Packed {
		isPacked[m.Packed[i].Name] = true
	}
	add := func(name string, in, out, experts int) {
		n := int64(in) * int64(out) * int64(max(experts, 1)) // some token may route to any expert
		if isPacked[name] {
			quantized += n
		} else {
			floats += n
		}
	}
	for i := range d.Blocks {
		for _, l := range d.Blocks[i].Linears() {
			add(l.Weight, l.In, l.Out, l.Experts)
		}
	}
	add(d.Head, d.Hidden, d.Vocab, 0)
	return quantized, floats
}
