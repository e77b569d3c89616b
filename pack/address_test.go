package pack

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// everyAddressed opens all layouts with all alphabets and parameters of the tests, and all exchange formats.
func everyAddressed(t *testing.T) []Addressed {
	t.Helper()
	var all []Addressed
	for _, l := range everyLayout(t) {
		all = append(all, l.(Addressed))
	}
	for _, info := range Layouts() {
		if info.Block != 0 {
			a, err := OpenAddressed(Spec{Name: info.Name})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, a)
		}
	}
	return all
}

// TestRulesAreTrue evaluates the printed address formulas and compares them with the layouts.
func TestRulesAreTrue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, l := range everyAddressed(t) {
		info, err := FindLayout(l.Spec().Name)
		if err != nil {
			t.Fatal(err)
		}
		if len(info.Address) == 0 {
			t.Errorf("%s prints no address formula", info.Name)
		}
		for _, s := range []Shape{{1, 1}, {37, 83}, {70, 700}, {5, 512}} {
			if info.Block != 0 {
				s.K = up(s.K, info.Block)
			}
			native, err := l.Padded(s)
			if err != nil {
				t.Fatal(err)
			}
			for range 60 {
				m, k := r.IntN(native.M), r.IntN(native.K)
				want, err := l.Places(s, m, k)
				if err != nil {
					t.Fatal(err)
				}
				if got := evaluate(t, info, l, native, m, k); !slices.Equal(got, want) {
					t.Fatalf("%s %v, weight (%d, %d): the printed formula says %v, the layout %v", info.Name,
						l.Spec(), m, k, got,
						want)
				}
			}
		}
	}
}

// evaluate gives the places of a weight by the printed rules.
func evaluate(t *testing.T, info Info, l Addressed, native Shape, m, k int) []Place {
	t.Helper()
	table := l.CodeTable()
	env := environment{"M": native.M, "K": native.K, "m": m, "k": k, "bits": 1}
	for table[len(table)-1].Digit >= 1<<env["bits"] {
		env["bits"]++
	}
	maps.Copy(env, l.Spec().Params)
	var places []Place
	for _, rule := range info.Address {
		planes := 1
		if rule.Name == "bit i" {
			planes = env["bits"]
		}
		for i := range planes {
			e := maps.Clone(env)
			if planes > 1 || rule.Name == "bit i" {
				e["i"] = i
			}
			for _, let := range slices.Concat(info.Let, rule.Let) {
				name, expression, _ := strings.Cut(let, " = ")
				e[name] = e.value(t, expression, 0)
			}
			if e.value(t, rule.When, 1) != 0 {
				places = append(places, Place{e.value(t, rule.Byte, 0), e.value(t, rule.Bit, 0), 0,
					e.value(t, rule.Unit, 1)})
			}
		}
	}
	want, err := l.Places(native, m, k)
	if err != nil {
		t.Fatal(err)
	}
	for i := range places { // the width of a number is not part of the formula
		places[i].Bits = want[min(i, len(want)-1)].Bits
	}
	return places
}

// environment holds the values of variables.
type environment map[string]int

// value evaluates an expression; an empty one has the given value.
func (e environment) value(t *testing.T, expression string, empty int) int {
	t.Helper()
	if expression == "" {
		return empty
	}
	tree, err := parser.ParseExpr(expression)
	if err != nil {
		t.Fatalf("%q: %v", expression, err)
	}
	v, err := e.eval(tree)
	if err != nil {
		t.Fatalf("%q: %v", expression, err)
	}
	return v
}

func (e environment) eval(x ast.Expr) (int, error) {
	switch x := x.(type) {
	case *ast.ParenExpr:
		return e.eval(x.X)
	case *ast.BasicLit:
		return strconv.Atoi(x.Value)
	case *ast.Ident:
		if v, ok := e[x.Name]; ok {
			return v, nil
		}
		return 0, fmt.Errorf("%s is not defined", x.Name)
	case *ast.BinaryExpr:
		a, err := e.eval(x.X)
		if err != nil {
			return 0, err
		}
		b, err := e.eval(x.Y)
		if err != nil {
			return 0, err
		}
		return operate(x.Op, a, b)
	}
	return 0, fmt.Errorf("no expression of integers: %T", x)
}

func operate(op token.Token, a, b int) (int, error) {
	truth := map[bool]int{true: 1}
	switch op {
	case token.ADD:
		return a + b, nil
	case token.SUB:
		return a - b, nil
	case token.MUL:
		return a * b, nil
	case token.QUO, token.REM:
		if b == 0 {
			return 0, fmt.Errorf("division by zero")
		}
		if op == token.QUO {
			return a / b, nil
		}
		return a % b, nil
	case token.XOR: // in our formulas: to the power of
		power := 1
		for range b {
			power *= a
		}
		return power, nil
	case token.LSS:
		return truth[a < b], nil
	case token.GEQ:
		return truth[a >= b], nil
	case token.LAND:
		return a * b, nil
	}
	return 0, fmt.Errorf("operator %s", op)
}

// TestPlacesAreTrue changes one weight at a time: only bits of its places change.
func TestPlacesAreTrue(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, l := range everyLayout(t) {
		a := alphabetOf(t, l)
		m := NewMatrix(Shape{19, 301}, a)
		randomize(r, m.Codes, a)
		before := packed(t, l, m)
		for range 12 {
			i := r.IntN(len(m.Codes))
			old := m.Codes[i]
			for m.Codes[i] == old {
				m.Codes[i] = a.Values[r.IntN(len(a.Values))]
			}
			after := packed(t, l, m)
			m.Codes[i] = old
			allowed := map[int]byte{}
			places, err := l.(Addressed).Places(m.Shape, i/m.K, i%m.K)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range places {
				allowed[p.Byte] |= byte((1<<p.Bits - 1) << p.Bit)
			}
			changed := false
			for at := range after {
				d := before[at] ^ after[at]
				changed = changed || d != 0
				if d&^allowed[at] != 0 {
					t.Fatalf("%s: weight %d changes bits %08b of byte %d, its places are %v", label(l), i, d,
						at, places)
				}
			}
			if !changed {
				t.Fatalf("%s: a change of weight %d from %d changes no byte", label(l), i, old)
			}
		}
	}
}

// TestProbes holds the addresses to the table of single weights that the original packers gave, for M = K = 64 (tl2: K
// = 320).
func TestProbes(t *testing.T) {
	weights := [][2]int{{0, 0}, {0, 1}, {0, 4}, {1, 0}, {8, 0}, {17, 5}, {33, 35}, {63, 63}}
	for _, c := range []struct {
		spec Spec
		want string // byte.bit of a field, byte:unit of a base-3 digit
	}{
		{Spec{Name: "vnni4i"}, "0.0 1.0 32.0 4.0 0.2 37.4 775.0 1023.6"},
		{Spec{Name: "vnni4i-64"}, "0.0 1.0 64.0 4.0 32.0 69.2 519.4 1023.6"},
		{Spec{Name: "vnni4", Alphabet: "int1"}, "0.0 0.1 16.0 0.4 4.0 24.5 384.7 511.7"},
		{Spec{Name: "vnni4-64", Alphabet: "int1"}, "0.0 0.1 32.0 0.4 4.0 40.5 272.7 511.7"},
		{Spec{Name: "vnni4p"}, "0.0 1.0 96.0 4.0 32.0 101.4 2311.0 3039.4"},
		{Spec{Name: "i2"}, "0:1 0:3 64:1 1:1 8:1 81:3 545:27 1023:27"},
		{Spec{Name: "i2-t4"}, "0:1 0:3 1:1 4:1 32:1 69:3 644:27 1023:27"},
		{Spec{Name: "i2-t8"}, "0:1 0:3 1:1 8:1 64:1 137:3 776:27 1023:27"},
		{Spec{Name: "i1"}, "0:1 0:3 0:81 1:1 8:1 81:1 481:1 831:27"},
		{Spec{Name: "i1-t2"}, "0:1 0:3 0:81 2:1 16:1 35:1 451:1 831:27"},
		{Spec{Name: "i2s"}, "0.6 1.6 4.6 0.2 128.6 261.2 515.0 1023.0"},
		{Spec{Name: "i2s-arm"}, "0.6 1.6 4.6 16.6 128.6 277.6 531.2 1023.0"},
		{Spec{Name: "i2s-rows4"}, "0.6 1.6 4.6 0.4 128.6 261.4 547.4 1023.0"},
		{Spec{Name: "w2a8"}, "0.0 1.0 0.2 4.0 64.0 261.2 647.0 1023.6"},
		{Spec{Name: "hf-u8"}, "0.0 1.0 4.0 64.0 512.0 69.2 99.4 1023.6"},
		{Spec{Name: "tl1", Params: map[string]int{"BM": 64, "BK": 32, "bm": 32}},
			"0:48 0:16 16:48 1:48 8:48 49:16 769:1 1023:1"},
		{Spec{Name: "tmac2", Params: map[string]int{"bm": 64, "kf": 8}}, "0.0 0.1 16.0 1.0 0.4 145.1 769.3 1015.7"},
		{Spec{Name: "tl2", Params: map[string]int{"BM": 32}}, "0:144 0:48 0:3 1:144 16:144 9:1 1697:1 1887:9"},
	} {
		l, err := OpenAddressed(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range weights {
			s := Shape{64, 64}
			if c.spec.Name == "tl2" {
				s.K = 320
			}
			places, err := l.Places(s, w[0], w[1])
			if err != nil {
				t.Fatal(err)
			}
			p := places[0]
			if strings.Contains(c.want, ":") {
				got = append(got, fmt.Sprintf("%d:%d", p.Byte, p.Unit<<p.Bit))
			} else {
				got = append(got, fmt.Sprintf("%d.%d", p.Byte, p.Bit))
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.spec.Name, s, c.want)
		}
	}
}
