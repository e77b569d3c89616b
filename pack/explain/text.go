package explain

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lowpack/lowpack/internal/align"
)

const (
	textRows    = 8
	textColumns = 16
	textBytes   = 8
	textWidth   = 100
	glue        = "\uE000" // stands for a space at which no line may break
)

// Text is a page about the layout: facts, address formula, code tables, and the picture in text.
func (l *Layout) Text() (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n", l.Name, l.Summary)
	l.facts(&b)
	b.WriteString("\nAddress of weight (m, k) in a matrix of M by K, padding included; / and % as in " +
		"integers, ^ is power\n")
	for _, line := range l.Formula {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	b.WriteString("\nCode table (digit → weight)\n")
	l.codes(&b)
	if err := l.picture(&b); err != nil {
		return "", err
	}
	if l.Note != "" {
		b.WriteString("\n" + wrap(l.Note, textWidth))
	}
	return b.String(), nil
}

func (l *Layout) facts(b *strings.Builder) {
	fact := func(name, format string, args ...any) {
		fmt.Fprintf(b, "  %-16s %s\n", name, fmt.Sprintf(format, args...))
	}
	fact("from", "%s", l.Source)
	for i, w := range l.widths() {
		fact(first(i, "bits per weight"), "%-6s %s", number(w.bits), strings.Join(w.alphabets, ", "))
	}
	switch {
	case l.Block != 0:
		fact("shape", "K must be a multiple of %d: the format knows no padding", l.Block)
		fact("scales", "one per %d consecutive weights of a row, inside the bytes; not a layout to run with", l.Block)
	case l.Rows == 1 && l.Columns == 1:
		fact("shape", "any")
		fact("scales", "apart from the codes")
	default:
		fact("shape", "any; padded with weight zero: %s", l.Shape())
		fact("scales", "apart from the codes")
	}
	if l.Panel != 0 {
		fact("panels", "%d rows, each a stretch of bytes of its own", l.Panel)
	} else if l.Block == 0 {
		fact("panels", "none: the matrix is packed as a whole")
	}
	for i, p := range l.Params {
		fact(first(i, "parameters"), "%s = %d: %s", p.Name, p.Default, p.Doc)
	}
}

// first is the name of a fact that takes several lines, on the first of them.
func first(i int, name string) string {
	if i > 0 {
		return ""
	}
	return name
}

func (l *Layout) codes(b *strings.Builder) {
	const indent = 11
	for _, a := range l.Alphabets {
		text := wrap(strings.Join(a.entries(" → "), ", "), textWidth-indent)
		text = strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+strings.Repeat(" ", indent))
		fmt.Fprintf(b, "  %-8s %s\n", a.Name, strings.ReplaceAll(text, glue, " "))
	}
}

// entries of the code table, each in one piece; long tables are abridged.
func (a *Alphabet) entries(arrow string) []string {
	var all []string
	for _, d := range a.Code {
		all = append(all, strings.ReplaceAll(fmt.Sprintf("%d%s%s", d.Digit, arrow, signed(d.Value)), " ", glue))
	}
	if len(all) > 16 {
		all = append(append(all[:3:3], "…"), all[len(all)-3:]...)
	}
	return all
}

// signed prints a value with a real minus sign.
func signed(v int8) string { return strings.Replace(fmt.Sprint(v), "-", "−", 1) }

// picture shows where the first weights lie, and which weights the first bytes hold.
func (l *Layout) picture(b *strings.Builder) error {
	e, err := l.example(textBytes)
	if err != nil {
		return err
	}
	table, err := e.positions(min(textRows, e.shape.M), min(textColumns, e.shape.K))
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\nWhere weights lie: %s (a corner of a matrix %v)\n", l.notation(e), e.shape)
	writeTable(b, table)
	fmt.Fprintf(b, "\nWhat the first bytes hold: row,column of each digit, bit 7 on the left\n")
	table = nil
	for i, slots := range e.bytes {
		line := []string{fmt.Sprintf("byte %d", i)}
		if len(slots) == 0 {
			line = append(line, "scale")
		}
		for _, s := range slots {
			line = append(line, s.label())
		}
		table = append(table, line)
	}
	writeTable(b, table)
	return nil
}

// positions is the table of the places of the first weights, with as many columns as fit a page.
func (e *example) positions(rows, columns int) ([][]string, error) {
	table := [][]string{{""}}
	for k := range columns {
		table[0] = append(table[0], fmt.Sprintf("k%d", k))
	}
	for m := range rows {
		line := []string{fmt.Sprintf("m%d", m)}
		for k := range columns {
			at, err := e.position(m, k)
			if err != nil {
				return nil, err
			}
			line = append(line, at)
		}
		table = append(table, line)
	}
	for len(table[0]) > 5 && lineWidth(table) > 120 {
		for i := range table {
			table[i] = table[i][:len(table[i])-4]
		}
	}
	return table, nil
}

// notation explains the entries of positions.
func (l *Layout) notation(e *example) string {
	places, err := e.addressed.Places(e.shape, 0, 0)
	if err != nil || len(places) == 0 {
		return "byte.bit"
	}
	shared := places[0].Unit > 1 || len(e.bytes[0]) > 8/places[0].Bits
	switch {
	case len(places) > 1 && shared:
		return "byte.bit×power of three, byte.bit of the sign"
	case len(places) > 1 && places[0].Bits > 1:
		return "byte.bit of the lower bits, then of the upper bits"
	case len(places) > 1:
		return "byte.bit of each bit, lowest first"
	case shared && places[0].Bits == 8:
		return "byte×power of three"
	case shared:
		return "byte.bit×power of three"
	case places[0].Bits == 8:
		return "byte"
	}
	return "byte.bit"
}

func lineWidth(table [][]string) (total int) {
	for _, width := range align.Widths(table) {
		total += width + 2
	}
	return total
}

// writeTable aligns columns to the right, each after two spaces.
func writeTable(b *strings.Builder, table [][]string) {
	for _, line := range align.Rows(table, func(int) bool { return true }) {
		fmt.Fprintf(b, "  %s\n", line)
	}
}

// wrap breaks a paragraph into lines of at most width characters.
func wrap(text string, width int) string {
	var b strings.Builder
	length := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case length == 0:
		case length+1+n > width:
			b.WriteByte('\n')
			length = 0
		default:
			b.WriteByte(' ')
			length++
		}
		b.WriteString(word)
		length += n
	}
	b.WriteByte('\n')
	return b.String()
}
