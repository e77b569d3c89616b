package manual

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Parted divides a description into paragraphs and examples: lines that are indented and begin with lowpack.
func Parted(about string) (paragraphs, examples []string) {
	for _, block := range strings.Split(about, "\n\n") {
		var kept []string
		for _, line := range strings.Split(block, "\n") {
			if isExample(line) {
				examples = append(examples, strings.TrimSpace(line))
			} else if line != "Examples:" && line != "" {
				kept = append(kept, line)
			}
		}
		if len(kept) > 0 {
			paragraphs = append(paragraphs, strings.Join(kept, "\n"))
		}
	}
	return paragraphs, examples
}

// isExample reports whether a line of a description is a command to type.
func isExample(line string) bool {
	return strings.HasPrefix(line, "  ") && strings.Contains(line, "lowpack ")
}

// without drops the paragraphs that also appear elsewhere.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

func unique(list []string) []string {
	var kept []string
	for _, s := range list {
		if !slices.Contains(kept, s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// paragraphs writes paragraphs; indented lines of one stay as they are.
func paragraphs(b *strings.Builder, list []string) {
	for i, p := range list {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		literal := false
		for _, line := range strings.Split(p, "\n") {
			if indented := strings.HasPrefix(line, "  "); indented != literal {
				b.WriteString(map[bool]string{true: ".PP\n.EX\n", false: ".EE\n"}[indented])
				literal = indented
			}
			b.WriteString(roff(line) + "\n")
		}
		if literal {
			b.WriteString(".EE\n")
		}
	}
}

// synopsis writes one line of usage: literal text in bold, placeholders in italics.
func synopsis(b *strings.Builder, line string) {
	for i, word := range strings.Fields(line) {
		if i > 0 {
			b.WriteString(" ")
		}
		core := strings.Trim(word, "[].")
		switch {
		case core != "" && core == strings.ToUpper(core) && !strings.HasPrefix(core, "-"):
			word = strings.Replace(roff(word), roff(core), "\\fI"+roff(core)+"\\fR", 1)
		case core != "flags":
			word = strings.Replace(roff(word), roff(core), "\\fB"+roff(core)+"\\fR", 1)
		default:
			word = roff(word)
		}
		b.WriteString(word)
	}
	b.WriteString("\n")
}

// options writes flags, each with its description and default.
func options(b *strings.Builder, flags []cli.Flag) {
	for _, f := range flags {
		d, ok := f.(cli.DocGenerationFlag)
		if !ok || f.Names()[0] == "help" {
			continue
		}
		value := Placeholder(d)
		var names []string
		for _, n := range f.Names() {
			name := "\\fB" + roff(Dashed(n)) + "\\fR"
			if value != "" {
				name += " \\fI" + roff(value) + "\\fR"
			}
			names = append(names, name)
		}
		usage := roff(d.GetUsage())
		if value != "" {
			usage = strings.Replace(usage, roff("`"+value+"`"), "\\fI"+roff(value)+"\\fR", 1)
		}
		fmt.Fprintf(b, ".TP\n%s\n%s\n", strings.Join(names, ", "), usage+defaultText(d))
	}
	b.WriteString(".TP\n\\fB\\-\\-help\\fR, \\fB\\-h\\fR\nshow help\n")
}

// defaultText returns the default of a flag, if it has one.
func defaultText(d cli.DocGenerationFlag) string {
	text := d.GetDefaultText()
	if !d.TakesValue() || text == "" {
		return ""
	}
	return " (default: " + roff(text) + ")"
}

// list writes terms and their meanings.
func list(b *strings.Builder, rows [][2]string, form string) {
	for _, r := range rows {
		fmt.Fprintf(b, ".TP\n"+form+"\n%s\n", roff(r[0]), roff(r[1]))
	}
}

func verbatim(lines []string) string {
	for i, line := range lines {
		lines[i] = roff(line)
	}
	return strings.Join(lines, "\n")
}

// sentence turns a usage text into a sentence.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }

// roff escapes text: characters that troff would interpret, and characters outside ASCII.
func roff(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '`':
			b.WriteString(`\(ga`)
		case r == '\'':
			b.WriteString(`\(aq`)
		case r == '^':
			b.WriteString(`\(ha`)
		case r == '~':
			b.WriteString(`\(ti`)
		case r == '.' && i == 0:
			b.WriteString(`\&.`)
		case r > 126:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
