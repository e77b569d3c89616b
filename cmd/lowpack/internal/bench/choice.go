package bench

import (
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/pack"
)

// Choice is the runtime's kernel for codes of an alphabet in a layout.
type Choice struct {
	Layout   string     `json:"layout"`
	Alphabet string     `json:"alphabet"`
	Kernel   string     `json:"kernel"`
	ISA      kernel.ISA `json:"isa"`
	About    string     `json:"about"`
}

// choices lists the runtime's kernel choices on this CPU, in the order of the list of layouts.
func choices() (list []Choice) {
	for _, info := range pack.Layouts() {
		if info.Block != 0 {
			continue
		}
		for _, alphabet := range info.AlphabetNames() {
			k := kernel.For(pack.Spec{Name: info.Name, Alphabet: alphabet})[0]
			list = append(list, Choice{info.Name, alphabet, k.String(), k.ISA, k.About})
		}
	}
	return list
}

// Faster is a measurement in which a kernel beat the runtime's choice.
type Faster struct {
	Row    *KernelRow
	Chosen *KernelRow
}

// Faster lists where a kernel was faster than the chosen one for the same matrix, by more than either spread.
func (r *KernelReport) Faster() (list []Faster) {
	type key struct {
		layout, alphabet      string
		m, k, tokens, threads int
	}
	of := func(row *KernelRow) key {
		return key{row.Layout, row.Alphabet, row.M, row.K, row.Tokens, row.Threads}
	}
	best := map[key]*KernelRow{}
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Chosen && row.result() {
			best[of(row)] = row
		}
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		c := best[of(row)]
		if c == nil || !row.result() {
			continue
		}
		if row.Seconds.Median*(1+max(row.Seconds.Spread, c.Seconds.Spread)) < c.Seconds.Median {
			list = append(list, Faster{row, c})
		}
	}
	return list
}

// result reports whether the row has meaningful figures.
func (r *KernelRow) result() bool { return r.Refused == "" && r.Wrong == "" && !r.Noise }
