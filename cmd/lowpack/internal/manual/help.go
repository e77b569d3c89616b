package manual

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// entry matches a line of a list: a flag or a command, and its description.
var entry = regexp.MustCompile(`^  (\S.*?)  +(\S.*)$`)

// leastText is the minimum width of a readable column of text.
const leastText = 40

// Fit folds paragraphs and lists to a number of columns. Indented examples are unchanged.
func Fit(text string, columns int) string {
	var out strings.Builder
	var paragraph []string
	flush := func() {
		if len(paragraph) > 0 {
			out.WriteString(fold(strings.Fields(strings.Join(paragraph, " ")), columns, 0, ""))
			paragraph = nil
		}
	}
	inList := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		e := entry.FindStringSubmatch(line)
		switch {
		case line == "", strings.HasSuffix(line, ":") && !strings.Contains(line, " "):
			flush()
			inList = line == "Flags:" || line == "Commands:" || inList && line == ""
			out.WriteString(line + "\n")
		case inList && e != nil:
			indent := utf8.RuneCountInString(line) - utf8.RuneCountInString(e[2])
			head := line[:len(line)-len(e[2])]
			if columns-indent < leastText {
				head, indent = "  "+e[1]+"\n      ", 6
			}
			out.WriteString(fold(strings.Fields(e[2]), columns, indent, head))
		case strings.HasPrefix(line, " "):
			flush()
			out.WriteString(line + "\n")
		default:
			paragraph = append(paragraph, line)
		}
	}
	flush()
	return out.String()
}

// fold writes words after head, whose last line has indent columns, and indents the following lines by as many.
func fold(words []string, columns, indent int, head string) string {
	var out strings.Builder
	out.WriteString(head)
	at := indent
	for _, w := range words {
		n := utf8.RuneCountInString(w)
		switch {
		case at == indent:
		case at+1+n > columns:
			out.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			out.WriteString(" ")
			at++
		}
		out.WriteString(w)
		at += n
	}
	return out.String() + "\n"
}

// AppHelp is the template of the program's help, for 120 columns.
const AppHelp = `{{.Name}} - {{.Usage}}

Usage:
  {{.UsageText}}

{{.Description}}

Commands:
{{range .VisibleCommands}}  {{printf "%-10s" .Name}}  {{.Usage}}
{{end}}
Flags:
{{range .VisibleFlags}}  {{.}}
{{end}}
Exit codes: 0 success, 1 bad input or a failed check, 2 wrong usage, 3 a problem of the system, 130 and 143 interrupted.
LOWPACK_ISA=NAME forces an instruction set that lowpack version lists.
`

// CommandHelp is the template of the help of a command.
const CommandHelp = `{{.HelpName}} - {{.Usage}}

Usage:
  {{if .UsageText}}{{.UsageText}}{{else}}{{.HelpName}} [flags]{{end}}
{{if .Description}}
{{.Description}}
{{end}}{{if .VisibleFlags}}
Flags:
{{range .VisibleFlags}}  {{.}}
{{end}}{{end}}`
