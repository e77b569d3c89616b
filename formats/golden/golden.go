// Package golden defines the golden outputs of a packed model: products of its tensors with recorded activations, and
// logits of recorded tokens. The engine records them at conversion, and the packed file stores them as Arrow record
// batches (docs/GOLDEN.md). Verification compares every kernel and the engine with them exactly, and checks them
// against the reference model.
package golden

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"iter"
	"math"

	"github.com/lowpack/lowpack/formats/packed"
)

// Record is the content of lowpack/golden. A record without results is a plan: it has the same shape, and the same
// encoded size, as the record that it becomes.
type Record struct {
	Products []Product
	Logits   []Logits // by sequence and position
	Texts    []Text   // in the order of Texts; empty if the file has no supported tokenizer
}

// Product is a product of a packed matrix with some activation vectors: acc[t][b][m] = Σ (code[m][k] − zero
// point)·q[t][k] over the columns k of block b (packed.Manifest.Block). Without group-wise scales of weights or
// activations there is a single block of all columns.
type Product struct {
	Tensor  string
	Expert  int32   // index of the matrix in a tensor with several
	Seed    uint64  // of the activations
	Vectors int     // t = 0 … Vectors − 1
	Rows    []int32 // rows whose values are listed, ascending
	Values  []int32 // [t][b][row of Rows]
	Digest  string  // SHA-256 of the whole acc, int32 little-endian, in hex; "" = only the listed rows were computed
}

// ByExpert splits the products of a tensor into runs with the same matrix.
func ByExpert(products []Product) iter.Seq[[]Product] {
	return func(yield func([]Product) bool) {
		for len(products) > 0 {
			same := 1
			for same < len(products) && products[same].Expert == products[0].Expert {
				same++
			}
			if !yield(products[:same:same]) {
				return
			}
			products = products[same:]
		}
	}
}

// Rows returns the number of rows of a tensor that the products cover, counted once per expert: all rows if there is a
// digest, else the listed ones.
func Rows(e *packed.Entry, products []Product) (rows int64) {
	byExpert := map[int32]int{}
	for i := range products {
		p, n := &products[i], len(products[i].Rows)
		if p.Digest != "" {
			n = e.MatrixShape().M
		}
		byExpert[p.Expert] = max(byExpert[p.Expert], n)
	}
	for _, n := range byExpert {
		rows += int64(n)
	}
	return rows
}

// Listed extracts the values of Rows from acc[t][b][m], all products of a matrix of m rows.
func (p *Product) Listed(acc []int32, m int) []int32 {
	out := make([]int32, 0, len(acc)/m*len(p.Rows))
	for ; len(acc) > 0; acc = acc[m:] {
		for _, row := range p.Rows {
			out = append(out, acc[row])
		}
	}
	return out
}

// Logits is the model's output after one token of a sequence.
type Logits struct {
	Sequence  int
	Seed      uint64 // of the given tokens
	Position  int32
	Token     int32
	Given     bool      // by the plan; other tokens are the argmax of the previous position
	Digest    string    // SHA-256 of the logits, float32 little-endian, in hex
	TopTokens []int32   // tokens of the largest logits in descending order, the smaller token first among equals
	TopLogits []float32 // their values
}

// noDigest is the placeholder of a digest in a plan.
var noDigest = hex.EncodeToString(make([]byte, sha256.Size))

// DigestProducts returns the digest of all values of a product.
func DigestProducts(acc []int32) string {
	h := sha256.New()
	b := make([]byte, 0, 4096)
	for i, v := range acc {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
		if len(b) == cap(b) || i == len(acc)-1 {
			h.Write(b)
			b = b[:0]
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// DigestLogits returns the digest of the logits of a position.
func DigestLogits(z []float32) string {
	b := make([]byte, 0, 4*len(z))
	for _, v := range z {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	d := sha256.Sum256(b)
	return hex.EncodeToString(d[:])
}

// random returns number i of the splitmix64 sequence of a seed, upper 31 bits only.
func random(seed uint64, i int) uint64 {
	z := uint64(i+1)*0x9E3779B97F4A7C15 + seed
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return (z ^ z>>31) >> 33
}

// Vectors derives the activations of a product from its seed: n vectors of k values in −127 … 127. Vector 1 is all 127,
// vector 2 all −127, vector 3 ±127 at random; the others are uniform.
func Vectors(seed uint64, n, k int) [][]int8 {
	out := make([][]int8, n)
	for t := range out {
		v := make([]int8, k)
		for i := range v {
			r := random(seed, t*k+i)
			switch t {
			case 1:
				v[i] = 127
			case 2:
				v[i] = -127
			case 3:
				v[i] = int8(127 - 254*(r%2))
			default:
				v[i] = int8(int(r%255) - 127)
			}
		}
		out[t] = v
	}
	return out
}

// tokens derives the given tokens of a sequence: the BOS token if bos ≥ 0, then uniform ones.
func tokens(seed uint64, n, vocab, bos int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(random(seed, i) % uint64(vocab))
	}
	if bos >= 0 && bos < vocab && n > 0 {
		out[0] = int32(bos)
	}
	return out
}

// seedOf derives a seed from a text, so that tensors have different activations.
func seedOf(text string) uint64 {
	d := sha256.Sum256([]byte(text))
	return binary.LittleEndian.Uint64(d[:8])
}
