// Package manual makes the help, the manual pages and the completions of the program from what its commands say about
// themselves.
package manual

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/internal/version"
)

// page is one manual page, in the macros of man(7).
type page struct {
	command  string // after lowpack; empty for the page about all
	usage    string
	synopsis string
	about    string
	flags    []cli.Flag
	commands []*cli.Command // described in this page, with their flags if they are subcommands
	others   []string       // other pages
}

// PageName is the name of the page of a command; "" = the program.
func PageName(command string) string { return strings.TrimSuffix("lowpack-"+command, "-") }

// Pages returns a page about the program, under the name "", and one per command.
func Pages(app *cli.App) map[string]string {
	texts := map[string]string{}
	for _, p := range pagesOf(app) {
		texts[p.command] = p.text()
	}
	return texts
}

func pagesOf(app *cli.App) []page {
	all := []page{{usage: app.Usage, synopsis: app.UsageText, about: app.Description, flags: app.Flags,
		commands: app.Commands}}
	for _, c := range app.Commands {
		all[0].others = append(all[0].others, "lowpack-"+c.Name)
		p := page{command: c.Name, usage: c.Usage, synopsis: c.UsageText, about: c.Description, flags: c.Flags,
			others: append([]string{"lowpack"}, related[c.Name]...)}
		p.commands = c.Subcommands
		all = append(all, p)
	}
	return all
}

// related lists the SEE ALSO pages of a page.
var related = map[string][]string{
	"convert":  {"lowpack-merge", "lowpack-verify", "lowpack-layouts"},
	"verify":   {"lowpack-convert", "lowpack-inspect"},
	"run":      {"lowpack-convert", "lowpack-tokenize", "lowpack-bench"},
	"inspect":  {"lowpack-verify"},
	"merge":    {"lowpack-convert"},
	"repack":   {"lowpack-layouts", "lowpack-unpack"},
	"unpack":   {"lowpack-repack", "lowpack-convert"},
	"layouts":  {"lowpack-pack", "lowpack-convert"},
	"pack":     {"lowpack-layouts"},
	"eval":     {"lowpack-run"},
	"tokenize": {"lowpack-run"},
	"synth":    {"lowpack-convert", "lowpack-bench"},
	"bench":    {"lowpack-run", "lowpack-eval"},
}

// exitCodes, in the help and in the pages.
var exitCodes = [][2]string{
	{"0", "done, every check passed"},
	{"1", "the input is bad, or a check failed"},
	{"2", "wrong usage"},
	{"3", "the environment failed: disk full, permission, limits of the process (ulimit), measurements too noisy"},
	{"130, 143", "interrupted by SIGINT or SIGTERM"},
}

// environment variables that lowpack reads.
var environment = [][2]string{
	{"LOWPACK_ISA",
		"use kernels of this instruction set (generic, avx2, avxvnni, avx512vnni, amx, neon) and of those that it " +
			"contains; one that this CPU lacks is an error. Default: the best that the CPU has. Results do not " +
			"depend on it"},
}

// files lists files that commands write or read in addition to the named ones.
var files = map[string][][2]string{
	"convert": {
		{".FILE.resume, .FILE.resume.journal",
			"what an interrupted conversion with --resume leaves beside the packed FILE, for the next one to continue"},
	},
}

func (p *page) text() string {
	var b strings.Builder
	title := strings.ToUpper(PageName(p.command))
	fmt.Fprintf(&b, ".\\\" Made by lowpack man.\n.TH %s 1 %s %q %q\n.nh\n.ad l\n", roff(title), version.Date,
		version.Tool,
		"lowpack manual")
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", roff(PageName(p.command)), roff(p.usage))
	for i, line := range strings.Split(p.synopsis, "\n") {
		if i > 0 {
			b.WriteString(".br\n")
		}
		synopsis(&b, strings.TrimSpace(line))
	}
	about, examples := Parted(p.about)
	if len(about) > 0 {
		b.WriteString(".SH DESCRIPTION\n")
		paragraphs(&b, about)
	}
	if p.command == "" {
		b.WriteString(".SH COMMANDS\n")
		for _, c := range p.commands {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff("lowpack-"+c.Name), roff(c.Usage))
		}
	}
	b.WriteString(".SH OPTIONS\n")
	options(&b, p.flags)
	if p.command != "" {
		for _, c := range p.commands {
			fmt.Fprintf(&b, ".SS %s\n%s\n", roff("lowpack "+p.command+" "+c.Name), roff(sentence(c.Usage)))
			sub, more := Parted(c.Description)
			b.WriteString(".PP\n")
			paragraphs(&b, without(sub, about))
			options(&b, c.Flags)
			examples = append(examples, more...)
		}
	}
	if len(examples) > 0 {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.EX\n%s\n.EE\n", verbatim(unique(examples)))
	}
	b.WriteString(".SH EXIT STATUS\n")
	list(&b, exitCodes, "%s")
	b.WriteString(".SH ENVIRONMENT\n")
	list(&b, environment, "%s")
	if f := files[p.command]; f != nil {
		b.WriteString(".SH FILES\n")
		list(&b, f, "\\fI%s\\fR")
	}
	b.WriteString(".SH SEE ALSO\n")
	for i, name := range p.others {
		end := ","
		if i == len(p.others)-1 {
			end = ""
		}
		fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(name), end)
	}
	b.WriteString(".PP\nhttps://github.com/lowpack/lowpack\n")
	return b.String()
}
