// Command recording runs what the README shows and draws it as a terminal: docs/recording.svg.
//
//	go run ./internal/testkit/recording BIN    (make recording)
package main

import (
	"bytes"
	"fmt"
	"html"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// commands are run in a directory that holds the bundled model as tiny-bitnet.
var commands = []struct {
	text string
	tail int // lines of the output that are shown; 0 = all
}{
	{"lowpack convert tiny-bitnet --layout vnni4i -o tiny.safetensors", 0},
	{"lowpack verify tiny.safetensors --source tiny-bitnet", 7},
	{`lowpack run tiny.safetensors -n 60 -p "Once upon a time there was a little girl"`, 0},
}

const (
	columns    = 104
	lineHeight = 20
	charWidth  = 8.4
	pause      = 1.4 // seconds between two commands
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: recording BIN")
	}
	lines, err := record(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("docs/recording.svg", draw(lines), 0o644); err != nil {
		log.Fatal(err)
	}
}

// line is one of the terminal, and the class of its colour.
type line struct {
	text, class string
	command     int // which it belongs to
}

// record runs the commands and returns what a terminal of the fixed width shows.
func record(program string) ([]line, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	model, err := filepath.Abs("testdata/tiny-bitnet")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "recording")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Symlink(model, filepath.Join(dir, "tiny-bitnet")); err != nil {
		return nil, err
	}
	var out []line
	for i, c := range commands {
		cmd := exec.Command("sh", "-c", strings.Replace(c.text, "lowpack", `"$PROGRAM"`, 1)+" 2>&1")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PROGRAM="+program)
		text, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", c.text, err, text)
		}
		out = append(out, line{"$ " + c.text, "command", i})
		shown := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
		if c.tail > 0 && len(shown) > c.tail {
			out = append(out, line{"…", "dim", i})
			shown = shown[len(shown)-c.tail:]
		}
		for _, t := range shown {
			for _, part := range wrap(t) {
				out = append(out, line{part, class(t), i})
			}
		}
		out = append(out, line{"", "", i})
	}
	return out, nil
}

// wrap breaks a line at spaces, so that it fits the terminal.
func wrap(text string) (lines []string) {
	for utf8.RuneCountInString(text) > columns {
		at := strings.LastIndexByte(string([]rune(text)[:columns]), ' ')
		lines, text = append(lines, text[:at]), text[at+1:]
	}
	return append(lines, text)
}

func class(text string) string {
	switch {
	case strings.HasPrefix(text, "PASS"):
		return "pass"
	case strings.HasPrefix(text, "loaded in"), strings.HasPrefix(text, "note: "):
		return "dim"
	}
	return ""
}

// draw writes the lines, which appear command by command unless the reader prefers no motion.
func draw(lines []line) []byte {
	var b bytes.Buffer
	width, height := columns*charWidth+32, len(lines)*lineHeight+52
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %d" role="img" aria-label="%s">
<style>
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d8dee9; white-space: pre }
.command { fill: #fff; font-weight: 600 } .dim { fill: #8b949e } .pass { fill: #7ee787 }
@media (prefers-reduced-motion: no-preference) { g { animation: show .3s both } @keyframes show { from { opacity: 0 } } }
</style>
<rect width="100%%" height="100%%" rx="8" fill="#161b22"/>
<circle cx="20" cy="18" r="6" fill="#ff5f57"/><circle cx="40" cy="18" r="6" fill="#febc2e"/>`+
		`<circle cx="60" cy="18" r="6" fill="#28c840"/>
`, width, height, "A terminal: lowpack converts the bundled model, verifies it and generates text")
	for i, l := range lines {
		if i == 0 || lines[i-1].command != l.command {
			if i > 0 {
				b.WriteString("</g>\n")
			}
			fmt.Fprintf(&b, "<g style=\"animation-delay:%gs\">\n", pause*float64(l.command))
		}
		if l.text != "" {
			fmt.Fprintf(&b, "<text x=\"16\" y=\"%d\" class=%q xml:space=\"preserve\">%s</text>\n",
				52+i*lineHeight, l.class,
				html.EscapeString(l.text))
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return b.Bytes()
}
