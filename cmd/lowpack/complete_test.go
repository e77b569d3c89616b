package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/manual"
)

func completed(line ...string) []string {
	var out bytes.Buffer
	Main(append([]string{"lowpack", manual.CompleteWord}, line...), strings.NewReader(""), &out, io.Discard)
	var list []string
	for _, l := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		word, _, _ := strings.Cut(l, "\t")
		list = append(list, word)
	}
	return list
}

func TestComplete(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"con|", "convert"},
		{"co|", "convert completion"},
		{"frobnicate |", ""},
		{"help ver|", "verify version"},
		{"convert --pro|", "--provenance"},
		{"convert dir --pro|", "--provenance"},
		{"convert -|",
			"--output -o --layout --param --quant --scale --activation --head --calibrate --method --recipe " +
				"--include --allow-lossy --golden --threads --jobs --resume --part --dry-run --size --bits " +
				"--min-quality --report --provenance --json --verbose --quiet --help"},
		{"convert |", ":files"},
		{"convert --head |", "bf16 int8 int6 int4 screen auto"},
		{"convert --head in|", "int8 int6 int4"},
		{"convert --head=in|", "--head=int8 --head=int6 --head=int4"},
		{"convert --head = |", "bf16 int8 int6 int4 screen auto"},
		{"convert --head = i|", "int8 int6 int4"},
		{"convert --head =|", "bf16 int8 int6 int4 screen auto"},
		{"convert --head int8 --gol|", "--golden"},
		{"convert --jobs |", ""},
		{"convert -o |", ":files"},
		{"convert --output=|", ":files"},
		{"convert --scale g|", "group:"},
		{"convert -- -|", ":files"},
		{"verify f --level k|", "kernel"},
		{"verify f --report j|", "junit: json:"},
		{"verify f --report junit:x|", ":files"},
		{"verify f --report junit : x|", ":files"},
		{"verify f --report junit :|", ":files"},
		{"verify f --report junit : x --le|", "--level"},
		{"unpack -o |", ":dirs"},
		{"run f --kv-cache-type |", "f32 f16 i8 i4"},
		{"layouts tl|", "tl1 tl2"},
		{"version |", ""},
		{"bench k|", "kernels :files"},
		{"bench kernels --layout vnni4i-|", "vnni4i-64"},
		{"bench --threads 1 kernels --sh|", "--shape"},
		{"bench kernels |", ""},
		{"completion |", "bash zsh fish"},
		{"man bench |", "pull"},
	} {
		line, _, _ := strings.Cut(c.line, "|")
		got := strings.Join(completed(strings.Split(line, " ")...), " ")
		if c.line == "man bench |" {
			got, _, _ = strings.Cut(got, " ")
		}
		if got != c.want {
			t.Errorf("%q: %q, %q expected", c.line, got, c.want)
		}
	}
}

// TestOffers: the flag accepts every word that completion offers, and flags whose help lists words offer them.
func TestOffers(t *testing.T) {
	offered := 0
	eachFlag(func(c *cli.Command, f cli.Flag) {
		o, ok := f.(manual.Offering)
		if !ok {
			return
		}
		offered++
		if len(o.Offers()) == 0 {
			t.Errorf("%s --%s offers %q", c.Name, f.Names()[0], o.Offers())
		}
		if d := f.(cli.DocGenerationFlag); d.GetValue() != "" && !slices.Contains(o.Offers(), d.GetValue()) {
			t.Errorf("%s --%s has the default %q, which is not offered", c.Name, f.Names()[0], d.GetValue())
		}
	})
	if offered < 12 {
		t.Errorf("only %d flags offer words", offered)
	}
}

// eachFlag visits the flags of all commands.
func eachFlag(visit func(*cli.Command, cli.Flag)) {
	for _, c := range commands() {
		for _, cmd := range append([]*cli.Command{c}, c.Subcommands...) {
			for _, f := range cmd.Flags {
				visit(cmd, f)
			}
		}
	}
}

// TestHelp holds every command to examples, and every flag to help that names its value.
func TestHelp(t *testing.T) {
	for _, c := range commands() {
		for _, cmd := range append([]*cli.Command{c}, c.Subcommands...) {
			if _, examples := manual.Parted(cmd.Description); len(examples) == 0 {
				t.Errorf("%s has no examples", cmd.Name)
			}
			if !strings.HasPrefix(cmd.UsageText, "lowpack ") {
				t.Errorf("%s does not say how it is used: %q", cmd.Name, cmd.UsageText)
			}
		}
	}
	eachFlag(func(c *cli.Command, f cli.Flag) {
		d := f.(cli.DocGenerationFlag)
		if usage := d.GetUsage(); usage == "" || strings.HasSuffix(usage, ".") {
			t.Errorf("%s --%s: %q", c.Name, f.Names()[0], usage)
		}
		if d.TakesValue() && manual.Placeholder(d) == "" {
			t.Errorf("%s --%s does not name its value", c.Name, f.Names()[0])
		}
	})
}
