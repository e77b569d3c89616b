package pack

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/fence"
)

// TestTranslation compares codes to digits and back, as this processor does it and as plain Go does, with the code
// table: for legal bytes, and for every other byte in some place.
func TestTranslation(t *testing.T) {
	defer func(b bool) { translates = b }(translates)
	r := rand.New(rand.NewPCG(5, 6))
	in, out := fence.New(t, 200), fence.New(t, 200)
	for _, l := range everyLayout(t) {
		f := formulaOf(l)
		if f == nil {
			continue
		}
		c := &f.code
		ascending := c.ascending()
		for i := range 400 {
			n := r.IntN(200)
			codes := fence.Tail[int8](in, n)
			randomize(r, codes, Alphabet{Values: ascending})
			legal := true
			if i%2 == 1 && n > 0 {
				wrong := uint8(r.Uint32())
				codes[r.IntN(n)] = int8(wrong)
				legal = c.legal[wrong]
			}
			digits := make([]byte, n)
			for k, v := range codes {
				digits[k] = c.digits[uint8(v)]
			}
			for _, translates = range switches {
				got := fence.Tail[byte](out, n)
				if c.encode(got, codes) != legal || legal && !bytes.Equal(got, digits) {
					t.Fatalf("%s: %d codes %v, legal %v: %v", label(l), n, codes, legal, got)
				}
			}
		}
		for i := range 400 {
			n := r.IntN(200)
			digits := fence.Tail[byte](in, n)
			used := true
			for k := range digits {
				digits[k] = c.digits[uint8(ascending[r.IntN(len(ascending))])]
			}
			if i%2 == 1 && n > 0 { // what unfold may leave: a digit that is not used, and none at all
				wrong := uint8(r.IntN(1 << c.bits()))
				if f.radix == 3 && r.IntN(2) == 0 { // digits of base 3 alone have that
					wrong = noDigit
				}
				digits[r.IntN(n)] = wrong
				_, used = c.value(int(wrong))
			}
			for _, translates = range switches {
				got := fence.Tail[int8](out, n)
				if c.decode(got, slices.Clone(digits)) != used {
					t.Fatalf("%s: %d digits %v, used %v", label(l), n, digits, used)
				}
				for k, d := range digits {
					if used && got[k] != c.byDigit[d] {
						t.Fatalf("%s: digit %d became code %d", label(l), d, got[k])
					}
				}
			}
		}
	}
}

// switches are the ways that this processor has.
var switches = slices.Compact([]bool{false, translates})

// TestGenerated: the assembly is what the generator writes.
func TestGenerated(t *testing.T) {
	dir := t.TempDir()
	run := exec.Command("go", "run", "./pack", "-o", dir)
	run.Dir = "../_asm"
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"zz_generated_translate_amd64.s", "zz_generated_unfold_amd64.s"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what _asm/pack writes: run go generate ./pack (%v)", name, err)
		}
	}
}
