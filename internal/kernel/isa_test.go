package kernel

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestRequired fails when an instruction set in LOWPACK_REQUIRE_ISA (a comma-separated list) is not in use, so that a
// run that is meant to test its kernels cannot pass without them.
func TestRequired(t *testing.T) {
	for _, name := range strings.FieldsFunc(os.Getenv("LOWPACK_REQUIRE_ISA"), func(r rune) bool { return r == ',' }) {
		isa := ISA(name)
		if !Have(isa) {
			t.Errorf("%s is not in use; there are %v", isa, Available())
		}
		if !slices.ContainsFunc(For(pack.Spec{Name: "vnni4i", Alphabet: pack.Ternary.Name}),
			func(k *Kernel) bool { return k.ISA == isa }) {
			t.Errorf("no %s kernel for vnni4i", isa)
		}
	}
}

func TestForcedISA(t *testing.T) {
	have := choose("").isas
	have = have[:len(have)-1]
	for _, step := range ladder {
		s := choose(string(step.isa))
		here := step.isa == Generic || slices.Contains(have, step.isa)
		if here != (s.err == nil) {
			t.Errorf("%s: error %v, on a machine with %v", step.isa, s.err, have)
		}
		if s.err != nil && !errors.Is(s.err, pack.ErrUnsupported) {
			t.Errorf("%s: error %v is not ErrUnsupported", step.isa, s.err)
		}
		if here && s.isas[0] != step.isa {
			t.Errorf("%s: %v is the best", step.isa, s.isas[0])
		}
		for _, isa := range s.isas[1:] {
			if isa != Generic && !slices.Contains(step.contains, isa) {
				t.Errorf("%s: %s is used too", step.isa, isa)
			}
		}
		if s.isas[len(s.isas)-1] != Generic {
			t.Errorf("%s: %v does not end with the definition", step.isa, s.isas)
		}
	}
	if err := choose("avx9000").err; err == nil {
		t.Error("an unknown instruction set can be forced")
	}
	if s := choose(""); s.err != nil || len(s.isas) != len(have)+1 {
		t.Errorf("not forced: %v, error %v, on a machine with %v", s.isas, s.err, have)
	}
}

// TestEveryISARepacks: every layout runs on every instruction set.
func TestEveryISARepacks(t *testing.T) {
	for _, isa := range Available() {
		if !slices.ContainsFunc(kernels, func(k *Kernel) bool { return k.ISA == isa && k.Layout == "*" }) {
			t.Errorf("%s has no kernel for layouts without one of their own", isa)
		}
	}
}

// TestRepackedIsNarrow: matrices without a kernel of their own take as many bits as their codes need.
func TestRepackedIsNarrow(t *testing.T) {
	if Best() == Generic {
		t.Skip("plain Go unpacks to bytes")
	}
	s := pack.Shape{M: 64, K: 256}
	for alphabet, bits := range map[string]int{pack.Ternary.Name: 2, pack.Int4.Name: 4} {
		l, err := pack.Open(pack.Spec{Name: "blocked", Alphabet: alphabet})
		if err != nil {
			t.Fatal(err)
		}
		size, err := l.PackedSize(s)
		if err != nil {
			t.Fatal(err)
		}
		packed := make([]byte, size)
		w, err := Bind(l, s, packed, 0)
		if err != nil {
			t.Fatal(err)
		}
		if w.Bytes() != s.M*s.K*bits/8 {
			t.Errorf("%s: %v reads %d bytes for %v", alphabet, w.Kernel, w.Bytes(), s)
		}
		w.Close()
	}
}

// TestKernelsNameLayouts: no kernel is for a layout or alphabet that does not exist.
func TestKernelsNameLayouts(t *testing.T) {
	for _, k := range Kernels() {
		if k.Layout == "*" {
			continue
		}
		info, err := pack.FindLayout(k.Layout)
		if err != nil {
			t.Errorf("%v: %v", k, err)
		}
		for _, a := range k.Alphabets {
			if !slices.Contains(info.AlphabetNames(), a) {
				t.Errorf("%v: layout has no alphabet %s", k, a)
			}
		}
		if k.About == "" || k.bind == nil {
			t.Errorf("%v: incomplete", k)
		}
	}
}
