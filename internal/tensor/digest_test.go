package tensor

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/testkit/long"
)

// digest is the SHA-256 of the results of every operation on fixed numbers. Every instruction set and architecture,
// with and without assembly, gives this one.
const digest = "f9e4f94ae7f253c45b357b47df56a3b5b8b5d8e3ec4ca8213857242712590636"

func TestDigest(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		if got := everything(); got != digest {
			t.Errorf("digest %s, want %s", got, digest)
		}
		if got := further(); got != furtherDigest {
			t.Errorf("digest %s, want %s", got, furtherDigest)
		}
		if got := i4(); got != i4Digest {
			t.Errorf("digest %s, want %s", got, i4Digest)
		}
	})
}

// lcg makes the same floats everywhere: a 64-bit linear congruential generator (Knuth's MMIX constants), its upper bits
// as a number in −4 … 4 that is a multiple of 2⁻²¹.
type lcg uint64

func (g *lcg) floats(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		*g = *g*6364136223846793005 + 1442695040888963407
		x[i] = float32(int32(*g>>32)>>8) * 0x1p-21
	}
	return x
}

// furtherDigest is that of the operations of N40 to N42 and of the rotation of pairs.
const furtherDigest = "40401256a3328ef2c4d5ed7ad12ff7dfb732f482e478ddcb6370e1ebf72e8d70"

func further() string {
	g := lcg(2)
	h := sha256.New()
	put := func(x ...float32) { binary.Write(h, binary.LittleEndian, x) }
	gate := XIELUGate(0.8, -0.7, 0.5, -1e-6)
	for _, n := range []int{1, 2, 16, 100, 258, 1000} {
		x, w := g.floats(n), g.floats(n)
		y := make([]float32, n)
		a, _ := LayerNorm(y, x, w, 1e-5)
		put(y...)
		put(a)
		gate(y, x, w)
		put(y...)
		Clamp(y, 1.5)
		put(y...)
		rotation := Rotation{make([]float32, n/2), make([]float32, n/2)}
		NewRope(500000, n/2*2).At(1000+n, rotation)
		rotation.ApplyPairs(x, x)
		put(x...)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func everything() string {
	g := lcg(1)
	h := sha256.New()
	put := func(x ...float32) { binary.Write(h, binary.LittleEndian, x) }
	for _, n := range []int{1, 8, 16, 100, 256, 1000} {
		x, w, u := g.floats(n), g.floats(n), g.floats(n)
		y, acc, q := make([]float32, n), make([]int32, n), make([]int8, n)
		a, _ := RMSNorm(y, x, w, 1e-6)
		d, _ := Quantize(q, y, a)
		put(y...)
		put(a, d, MaxAbs(x), Sum(x))
		for i, v := range q {
			acc[i] = int32(v) * int32(i-n/2)
		}
		binary.Write(h, binary.LittleEndian, q)
		ScaleRows(y, acc, w, d)
		put(y...)
		ScaleAll(y, acc, 0.37, d)
		ScaleAdd(y, acc, u)
		Add(y, x)
		Times(y, 1.1)
		put(y...)
		for _, name := range []string{"gelu_tanh", "relu2", "silu"} {
			Gates[name](y, x, u)
			put(y...)
		}
		SoftCaps(y, 30)
		put(y...)
		put(Softmax(y))
		Divide(y, y, 3.3)
		put(y...)
		rotation := Rotation{make([]float32, n/2), make([]float32, n/2)}
		NewRope(500000, n/2*2).At(1000+n, rotation)
		rotation.Apply(x, x)
		put(x...)
		for _, typ := range []Type{F32, F16, BF16} {
			m, _ := NewMatrix(typ, 7, n, encode(typ, g.floats(7*n)))
			y := make([]float32, 7*5)
			m.Mul(Vectors{y, 7}, Vectors{g.floats(5 * n), n}, 5, Range{0, 7})
			put(y...)
			o := make([]float32, n)
			m.AddWeighted(Vectors{o, n}, Vectors{y, 6}, 1, Range{1, 7}, Range{0, n}, 0)
			put(o...)
		}
	}
	for _, typ := range []CacheType{CacheF32, CacheF16, CacheI8} {
		put(g.attention(typ)...)
	}
	r := NewRope(500000, 64)
	r.Llama3(32, 1, 4, 8192)
	binary.Write(h, binary.LittleEndian, r.Inv)
	return hex.EncodeToString(h.Sum(nil))
}

// attention is that of three heads to the rows of a cache.
func (g *lcg) attention(typ CacheType) (o []float32) {
	keys, values := newCaches(typ, 100, 48, CacheBlock)
	for i := range 100 {
		keys.SetRow(i, g.floats(48))
		values.SetRow(i, g.floats(48))
	}
	q := make([]float32, 3*keys.Width())
	for h := range 3 {
		copy(q[h*keys.Width():], g.floats(48))
	}
	o = make([]float32, 3*48)
	scratch := NewScratch(3, keys.Width(), CacheBlock, make([]float32, ScoreSpace(3, 99)))
	Attention{Scale: 0.1}.Heads(Queries{q, []Query{{Dst: o, Span: Range{1, 100}}}}, 3, 48, keys, values, scratch)
	return o
}

// i4Digest is that of the operations of N82.
const i4Digest = "c201a657194d40e5ea86acd90e7b0c572db21f8d6c4a6c7e0f0cb780797cb7a9"

func i4() string {
	g, h := lcg(3), sha256.New()
	for _, n := range []int{1, 2, 16, 80, 96, 256} {
		x := g.floats(n)
		Hadamard(x)
		binary.Write(h, binary.LittleEndian, x)
		InverseHadamard(x)
		binary.Write(h, binary.LittleEndian, x)
	}
	binary.Write(h, binary.LittleEndian, g.attention(CacheI4))
	return hex.EncodeToString(h.Sum(nil))
}

// TestDigestElsewhere runs TestDigest of other builds: without assembly and with the compiler's license to use newer
// instructions (GOAMD64=v3 fuses products and sums where the code does not forbid it), and on emulated CPUs. s390x is
// there for its order of bytes. Steps of .ci/run run the tests themselves without assembly and on arm64.
func TestDigestElsewhere(t *testing.T) {
	long.Only(t)
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the other builds run on linux/amd64 only")
	}
	for _, c := range []struct {
		name, env, tags, emulator string
		level                     string
	}{
		{"GOAMD64=v3", "GOAMD64=v3", "purego", "", "generic"},
		{"arm64", "GOARCH=arm64", "", "qemu-aarch64-static", "neon"},
		{"arm64 purego", "GOARCH=arm64", "purego", "qemu-aarch64-static", "generic"},
		{"s390x", "GOARCH=s390x", "", "qemu-s390x-static", "generic"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.emulator != "" {
				if _, err := exec.LookPath(c.emulator); err != nil {
					t.Skipf("%s is not installed", c.emulator)
				}
			}
			binary := filepath.Join(t.TempDir(), "tensor.test")
			build := exec.Command("go", "test", "-c", "-tags="+c.tags, "-o", binary, ".")
			build.Env = append(os.Environ(), c.env)
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			const tests = "^Test(Digest|Elementwise|Reductions|ExpEverywhere|Quantize|Rotate|Scores|Mul|Weigh|I8|" +
				"UnpackI4|PackI4|Hadamard|Heads)$"
			argv := append(strings.Fields(c.emulator), binary, "-test.run="+tests, "-test.v")
			run := exec.Command(argv[0], argv[1:]...)
			run.Env = append(os.Environ(), kernel.EnvISA+"=") // an instruction set forced here is none of that CPU
			out, err := run.CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("--- PASS: TestDigest/"+c.level)) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
