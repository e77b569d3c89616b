package explain

import (
	"fmt"
	"slices"
	"strings"
)

// drawn are the layouts whose pictures the documentation shows.
var drawn = []string{"vnni4i", "vnni4t", "i1"}

const preface = `# Layouts

Every way that lowpack knows to write the codes of a weight matrix as bytes. This page is generated from the definitions
that pack and unpack (` + "`go generate ./pack`" +
	`); tests evaluate the address formulas printed here and compare them, and packed
bytes that the original systems produced, with the code.

A matrix has M rows (output features) and K columns (input features). A layout turns the code of each weight into a digit
and puts the digit into a byte: into bits of its own, or, times a power of three, into a number that it shares. Shapes that
a layout does not hold as they are get rows and columns of weight zero, which never show in results. Scales lie apart from
the codes. In the exchange formats at the end they lie inside: models are imported from and exported to those, they do not
run with them.

` + "`lowpack layouts NAME`" + ` prints a page of this document, ` + "`--svg FILE`" + ` draws it, ` +
	"`lowpack pack --layout NAME`" + ` packs any codes.

`

// Pages is the documentation: LAYOUTS.md and its pictures, by path below docs.
func Pages() (map[string]string, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	pages := map[string]string{}
	var b strings.Builder
	b.WriteString(preface)
	overview(&b, all)
	for _, l := range all {
		text, err := l.Text()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\n## %s\n\n", l.Name)
		if slices.Contains(drawn, l.Name) {
			picture := "layouts/" + l.Name + ".svg"
			if pages[picture], err = l.SVG(); err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "![%s: %s](%s)\n\n", l.Name, l.Summary, picture)
		}
		_, body, _ := strings.Cut(text, "\n\n")
		fmt.Fprintf(&b, "%s.\n\n```text\n%s```\n", sentence(l.Summary), body)
	}
	pages["LAYOUTS.md"] = b.String()
	return pages, nil
}

// overview is the table of all layouts.
func overview(b *strings.Builder, all []*Layout) {
	b.WriteString("| Layout | From | Bits per weight | Alphabets | Shape (padded, or required) | Panel rows | " +
		"Parameters |\n|---|---|---|---|---|---|---|\n")
	for _, l := range all {
		panel := "–"
		if l.Panel > 0 {
			panel = fmt.Sprint(l.Panel)
		}
		fmt.Fprintf(b, "| [`%s`](#%s) | %s | %s | %s | %s | %s | %s |\n",
			l.Name, l.Name, l.Source, l.BitsPerWeight(), l.AlphabetNames(), l.Shape(), panel, l.ParamsText())
	}
}

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
