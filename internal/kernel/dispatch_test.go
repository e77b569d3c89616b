package kernel

import (
	"slices"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestMeasured: the table names kernels of this build, where they are part of it, each once.
func TestMeasured(t *testing.T) {
	seen := map[[2]string]bool{}
	for _, m := range Measured() {
		if key := [2]string{m.Kernel, m.Alphabet}; seen[key] || m.Vector <= 0 || m.Batch <= 0 {
			t.Errorf("%+v", m)
		} else {
			seen[key] = true
		}
		i := slices.IndexFunc(Kernels(), func(k *Kernel) bool {
			return k.String() == m.Kernel && (k.Alphabets == nil || slices.Contains(k.Alphabets, m.Alphabet))
		})
		if i < 0 && slices.Contains(Available(), AVX2) {
			t.Errorf("there is no kernel %s for %s", m.Kernel, m.Alphabet)
		}
	}
}

// TestChoice: the first kernel is of the best instruction set, and no other kernel of that set was measured to be
// faster; weights that have a kernel of their own are not repacked for a few percent.
func TestChoice(t *testing.T) {
	for _, spec := range specs(t) {
		list := For(spec)
		best, measured := list[0].vector(spec.Alphabet)
		for _, k := range list[1:] {
			if rung(k.ISA) < rung(list[0].ISA) {
				t.Errorf("%s, %s: %v comes before %v", spec.Name, spec.Alphabet, list[0], k)
			}
			if v, ok := k.vector(spec.Alphabet); ok && measured && k.ISA == list[0].ISA && v > best {
				t.Errorf("%s, %s: %v was slower than %v", spec.Name, spec.Alphabet, list[0], k)
			}
		}
		if list[len(list)-1] != generic {
			t.Errorf("%s: the definition is not the last resort", spec.Name)
		}
	}
	spec := pack.Spec{Name: "i2-t4", Alphabet: pack.Ternary.Name}
	if Have(AVX512VNNI) && For(spec)[0].ISA != Best() {
		t.Errorf("%s: %v", spec.Name, For(spec)[0])
	}
	for _, isa := range []ISA{AMX, AVX512VNNI, AVX2} {
		spec := pack.Spec{Name: "vnni4", Alphabet: pack.Int8.Name}
		i := slices.IndexFunc(For(spec), func(k *Kernel) bool { return k.ISA == isa })
		if Have(isa) && For(spec)[i].Layout != spec.Name {
			t.Errorf("%s: %v", spec.Name, For(spec)[i])
		}
	}
}
