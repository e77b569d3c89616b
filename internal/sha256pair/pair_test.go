package sha256pair

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/fence"
)

// switches are the ways that this processor has.
var switches = slices.Compact([]bool{false, interleaves})

// everyWay runs a test on each of them.
func everyWay(t *testing.T, test func(t *testing.T)) {
	defer func(b bool) { interleaves = b }(interleaves)
	for _, interleaves = range switches {
		t.Run(fmt.Sprint("interleaved ", interleaves), test)
	}
}

// TestVectors checks the vectors of FIPS 180-2, B.1 to B.3.
func TestVectors(t *testing.T) {
	everyWay(t, func(t *testing.T) {
		a, b, c, d := sha256.New(), sha256.New(), sha256.New(), sha256.New()
		million := bytes.Repeat([]byte("a"), 1_000_000)
		Write(a, million, b, million)
		Write(c, []byte("abc"), d, []byte("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))
		for h, want := range map[hash.Hash]string{
			a: "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
			b: "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
			c: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
			d: "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
		} {
			if got := hex.EncodeToString(h.Sum(nil)); got != want {
				t.Errorf("%s, not %s", got, want)
			}
		}
	})
}

// TestPieces writes pairs of messages in pieces of every length up to 300, and of others around those from which on
// both go together, to hashes that have begun a block or not.
func TestPieces(t *testing.T) {
	everyWay(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		p, q := random(r, 40*least), random(r, 40*least)
		for first := range 301 {
			samePair(t, p, q, [][2]int{{first, r.IntN(301)}, {r.IntN(301), first},
				{least + r.IntN(300), least + first}})
		}
		for range 500 {
			var pieces [][2]int
			for range 8 {
				pieces = append(pieces, [2]int{r.IntN(4 * least), r.IntN(4 * least)})
			}
			samePair(t, p, q, pieces)
		}
	})
}

func FuzzWrite(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	p, q := random(r, 1<<19), random(r, 1<<19)
	f.Add([]byte{0, 1, 0, 2, 4, 0, 4, 1}) // lengths of pieces, two bytes each, in turn of p and of q
	f.Fuzz(func(t *testing.T, lengths []byte) {
		var pieces [][2]int
		for ; len(lengths) >= 4 && len(pieces) < 16; lengths = lengths[4:] {
			pieces = append(pieces, [2]int{int(binary.BigEndian.Uint16(lengths)) % 32768,
				int(binary.BigEndian.Uint16(lengths[2:])) % 32768})
		}
		samePair(t, p, q, pieces)
	})
}

// samePair writes pieces of two messages, and compares the sums after each with crypto/sha256.
func samePair(t *testing.T, p, q []byte, pieces [][2]int) {
	t.Helper()
	a, b := sha256.New(), sha256.New()
	i, j := 0, 0
	for _, n := range pieces {
		Write(a, p[i:i+n[0]], b, q[j:j+n[1]])
		i, j = i+n[0], j+n[1]
		wantA, wantB := sha256.Sum256(p[:i]), sha256.Sum256(q[:j])
		if !bytes.Equal(a.Sum(nil), wantA[:]) || !bytes.Equal(b.Sum(nil), wantB[:]) {
			t.Fatalf("wrong sum after pieces %v of %v", n, pieces)
		}
	}
}

// TestFence lets both messages end, and begin, where nothing can be read.
func TestFence(t *testing.T) {
	everyWay(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		one, other := fence.New(t, 3*least), fence.New(t, 3*least)
		for range 200 {
			i, j := least+r.IntN(2*least), least+r.IntN(2*least)
			for _, place := range []func(*fence.Memory, int) []byte{fence.Tail[byte], fence.Head[byte]} {
				p, q := place(one, i), place(other, j)
				copy(p, random(r, i))
				copy(q, random(r, j))
				samePair(t, p, q, [][2]int{{i, j}})
				one.Check(t)
				other.Check(t)
			}
		}
	})
}

// TestOther: hashes of another kind are written to one after the other.
func TestOther(t *testing.T) {
	everyWay(t, func(t *testing.T) {
		p := random(rand.New(rand.NewPCG(7, 8)), 5*least)
		for _, make := range []func() hash.Hash{sha512.New, sha256.New224,
			func() hash.Hash { return struct{ hash.Hash }{sha256.New()} }} {
			a, b, want := make(), make(), make()
			want.Write(p)
			Write(a, p, b, p)
			if !bytes.Equal(a.Sum(nil), want.Sum(nil)) || !bytes.Equal(b.Sum(nil), want.Sum(nil)) {
				t.Errorf("wrong sum of %T", want)
			}
		}
	})
}

// TestSaved: this Go version saves states in the form that the pairs rely on. Without it they would be slow, not wrong.
func TestSaved(t *testing.T) {
	h := sha256.New()
	h.Write(make([]byte, 100))
	if s := save(h); s == nil || s.length() != 100 || s.begun() != 36 {
		t.Errorf("crypto/sha256 saves %x", []byte(s))
	}
}

// TestGenerated: the assembly is what the generator writes.
func TestGenerated(t *testing.T) {
	dir := t.TempDir()
	run := exec.Command("go", "run", "./sha256pair", "-o", dir)
	run.Dir = "../../_asm"
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const name = "zz_generated_blocks_amd64.s"
	want, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what _asm/sha256pair writes: run go generate ./internal/sha256pair (%v)", name, err)
	}
}

// Benchmark compares one message, the ceiling of two that take no longer than it, and pieces that are small.
func Benchmark(b *testing.B) {
	r := rand.New(rand.NewPCG(9, 10))
	p, q := random(r, 64<<10), random(r, 64<<10)
	x, y := sha256.New(), sha256.New()
	b.Run("one", func(b *testing.B) {
		b.SetBytes(int64(len(p)))
		for b.Loop() {
			x.Write(p)
		}
	})
	for _, n := range []int{len(p), 4096, least} {
		b.Run(fmt.Sprintf("two of %d", n), func(b *testing.B) {
			b.SetBytes(int64(2 * n))
			for b.Loop() {
				Write(x, p[:n], y, q[:n])
			}
		})
	}
}

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}
