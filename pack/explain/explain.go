// Package explain describes the layouts of package pack to people: a table, a page of text and a picture for each, all
// derived from the definitions that pack and unpack.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// Layout describes a layout or an exchange format.
type Layout struct {
	Name      string       `json:"name"`
	Version   int          `json:"version"`
	Source    string       `json:"source"`
	Summary   string       `json:"summary"`
	Rows      int          `json:"rows"`    // M is padded to a multiple of it
	Columns   int          `json:"columns"` // K is padded to a multiple of it; in an exchange format it must be one
	Panel     int          `json:"panel"`   // rows of a panel; 0 = the matrix is packed as a whole
	Block     int          `json:"block"`   // weights that share a scale inside the bytes; 0 = scales lie apart
	Params    []pack.Param `json:"params"`
	Alphabets []Alphabet   `json:"alphabets"` // the first one is the default
	Formula   []string     `json:"formula"`
	Note      string       `json:"note"`

	info pack.Info
}

// Alphabet is how a layout holds the codes of an alphabet.
type Alphabet struct {
	Name string  `json:"name"`
	Bits float64 `json:"bits_per_weight"`
	Code []Digit `json:"code"`
}

// Digit is a line of a code table.
type Digit struct {
	Digit int  `json:"digit"`
	Value int8 `json:"value"`
}

// round is a number of rows and columns that every layout with its default parameters holds without padding.
const round = 7680

// All explains every layout, in the order of pack.Layouts.
func All() ([]*Layout, error) {
	var all []*Layout
	for _, info := range pack.Layouts() {
		l, err := Of(info.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// Of explains one layout with its default parameters.
func Of(name string) (*Layout, error) {
	info, err := pack.FindLayout(name)
	if err != nil {
		return nil, err
	}
	l := &Layout{
		Name: info.Name, Version: info.Version, Source: info.Source, Summary: info.Summary,
		Block: info.Block, Params: info.Params, Note: info.Note, Formula: formula(info), info: info,
	}
	for _, a := range info.Alphabets {
		addressed, err := l.open(a.Name)
		if err != nil {
			return nil, err
		}
		if err := l.measure(addressed, a); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *Layout) open(alphabet string) (pack.Addressed, error) {
	return pack.OpenAddressed(pack.Spec{Name: l.Name, Alphabet: alphabet})
}

// measure finds sizes and constraints by asking the layout.
func (l *Layout) measure(a pack.Addressed, alphabet pack.Alphabet) error {
	sizer := a.(interface{ PackedSize(pack.Shape) (int, error) })
	bytes, err := sizer.PackedSize(pack.Shape{M: round, K: round})
	if err != nil {
		return err
	}
	entry := Alphabet{Name: alphabet.Name, Bits: float64(bytes) * 8 / (round * round)}
	for _, d := range a.CodeTable() {
		entry.Code = append(entry.Code, Digit(d))
	}
	l.Alphabets = append(l.Alphabets, entry)
	if p, ok := a.(pack.Paneled); ok {
		l.Panel = p.PanelRows()
	}
	if l.Block != 0 {
		l.Rows, l.Columns = 1, l.Block
		return nil
	}
	more, err := a.Padded(pack.Shape{M: round + 1, K: round})
	if err != nil {
		return err
	}
	wider, err := a.Padded(pack.Shape{M: round, K: round + 1})
	if err != nil {
		return err
	}
	l.Rows, l.Columns = more.M-round, wider.K-round
	return nil
}

// clause is a part of an address formula: definitions and what they lead to, and to which weights and places they
// apply.
type clause struct {
	heading string
	lines   []string
}

func clauses(info pack.Info) []clause {
	all := []clause{{lines: info.Let}}
	for _, r := range info.Address {
		c := clause{heading: r.Name}
		if r.When != "" {
			c.heading = strings.TrimPrefix(r.Name+", where "+r.When, ", ")
		}
		place := "byte " + r.Byte
		if r.Bit != "" {
			place += ", from bit " + r.Bit
		}
		if r.Unit != "" {
			place += ", times " + r.Unit
		}
		c.lines = append(slices.Clone(r.Let), place)
		all = append(all, c)
	}
	if info.Stored != "" {
		all = append(all, clause{lines: []string{"digits add up to v, stored as " + info.Stored}})
	}
	return all
}

// formula writes an address formula as lines of text.
func formula(info pack.Info) []string {
	var lines []string
	for _, c := range clauses(info) {
		indent := ""
		if c.heading != "" {
			lines = append(lines, c.heading+":")
			indent = "  "
		}
		for _, line := range c.lines {
			lines = append(lines, indent+line)
		}
	}
	return lines
}

// BitsPerWeight lists the widths of the alphabets, ascending: "1, 2, 4".
func (l *Layout) BitsPerWeight() string {
	var text []string
	for _, w := range l.widths() {
		text = append(text, number(w.bits))
	}
	return strings.Join(text, ", ")
}

// width is a number of bits per weight and the alphabets that have it.
type width struct {
	bits      float64
	alphabets []string
}

func (l *Layout) widths() []width {
	var all []width
	for _, a := range l.Alphabets {
		i := slices.IndexFunc(all, func(w width) bool { return w.bits == a.Bits })
		if i < 0 {
			i = len(all)
			all = append(all, width{bits: a.Bits})
		}
		all[i].alphabets = append(all[i].alphabets, a.Name)
	}
	slices.SortFunc(all, func(a, b width) int { return cmp.Compare(a.bits, b.bits) })
	return all
}

// AlphabetNames lists the alphabets, the default first.
func (l *Layout) AlphabetNames() string {
	var names []string
	for _, a := range l.Alphabets {
		names = append(names, a.Name)
	}
	return strings.Join(names, ", ")
}

// Shape says how rows and columns are padded, in short.
func (l *Layout) Shape() string {
	if l.Block != 0 {
		return fmt.Sprintf("K %% %d = 0", l.Block)
	}
	var parts []string
	if l.Rows > 1 {
		parts = append(parts, fmt.Sprintf("M to %d", l.Rows))
	}
	if l.Columns > 1 {
		parts = append(parts, fmt.Sprintf("K to %d", l.Columns))
	}
	if len(parts) == 0 {
		return "any"
	}
	return strings.Join(parts, ", ")
}

// ParamsText lists parameters and their defaults: "bm=32 bk=64".
func (l *Layout) ParamsText() string {
	var text []string
	for _, p := range l.Params {
		text = append(text, fmt.Sprintf("%s=%d", p.Name, p.Default))
	}
	return strings.Join(text, " ")
}

// number prints at most four decimals.
func number(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.4f", v), "0"), ".")
}
