package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/printable"
)

func synthCommand() *cli.Command {
	return &cli.Command{
		Name:      "synth",
		Usage:     "write a checkpoint with random weights, of any size and family",
		ArgsUsage: "CONFIG.json",
		UsageText: "lowpack synth CONFIG.json -o DIR [flags]\n  lowpack synth --like NAME -o DIR [flags]",
		Description: `The checkpoint has the tensors, files and sizes of a real one, and weights that keep activations
finite; what it writes means nothing. It is for measuring and testing. The same configuration, flags
and seed give the same bytes.

Bundled configurations (--like):
` + columns(likeNames(), 76) + `

  lowpack synth --like bitnet-2b4t -o 2b4t
  lowpack synth --like llama-3-8b --mini -o small
  lowpack synth config.json --shard-size 5GB -o big`,
		Flags: []cli.Flag{
			outputFlag("write the directory `DIR`; it must not exist"),
			oneOf(&cli.StringFlag{Name: "like", Usage: "use the bundled configuration of the model `NAME`"},
				likeNames()...),
			&cli.BoolFlag{Name: "packed", Usage: "write the linear layers as packed ternary codes, four to a byte"},
			oneOf(&cli.StringFlag{Name: "weights",
				Usage:       "what the linear layers look like: `KIND` is " + strings.Join(synth.Kinds(), ", "),
				DefaultText: "as the configuration declares"}, synth.Kinds()...),
			&cli.BoolFlag{Name: "mini", Usage: "shrink the configuration to a miniature of its family, of less than " +
				"a megabyte"},
			&cli.Uint64Flag{Name: "seed", Usage: "choose other random weights by the number `N`"},
			between(0, maxShards, &cli.IntFlag{Name: "shards", Usage: "write `N` weight files of about the same size",
				DefaultText: "1"}),
			&cli.StringFlag{Name: "shard-size",
				Usage: "write weight files of at most `SIZE` bytes, such as 5GB or 512MiB"},
			jsonFlag(),
		},
		Action: runSynth,
	}
}

func runSynth(c *cli.Context) error {
	dir := c.String("output")
	if dir == "" {
		return usagef("synth needs --output DIR")
	}
	o, err := synthOptions(c)
	if err != nil {
		return err
	}
	ck, err := synth.New(o)
	if err != nil {
		return err
	}
	start := time.Now()
	p := newProgress(besideResult(c), "synth")
	err = ck.Write(c.Context, dir, p.set)
	p.done()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, map[string]any{
			"directory": dir, "family": ck.Description.Family, "parameters": ck.Parameters(), "tensors": ck.Tensors(),
			"bytes": ck.Bytes(), "weights": ck.Weights, "seed": o.Seed, "files": ck.Files(),
		})
	}
	took := time.Since(start).Seconds()
	fmt.Fprintf(besideResult(c), "%s: %s parameters, %s weights, %s in %.1f s (%s/s)\n",
		printable.Line(dir), count(ck.Parameters()), ck.Weights, size(ck.Bytes()), took,
		size(int64(float64(ck.Bytes())/took)))
	return nil
}

func synthOptions(c *cli.Context) (o synth.Options, err error) {
	if name := c.String("like"); name != "" {
		if c.NArg() > 0 {
			return o, usagef("--like %s and a configuration %q cannot be combined", name, c.Args().First())
		}
		if o, err = synth.Find(name); err != nil {
			return o, usagef("%v", err)
		}
	} else {
		if err := wantArgs(c, 1, "a CONFIG.json or --like NAME"); err != nil {
			return o, err
		}
		if o.Config, err = readConfig(c.Args().First()); err != nil {
			return o, err
		}
	}
	if c.IsSet("weights") {
		o.Weights = synth.Weights(c.String("weights"))
	}
	if c.Bool("packed") {
		if c.IsSet("weights") {
			return o, usagef("--packed and --weights %s cannot be combined", o.Weights)
		}
		o.Weights = synth.Codes
	}
	o.Mini, o.Seed, o.Shards = c.Bool("mini"), c.Uint64("seed"), c.Int("shards")
	if c.IsSet("shard-size") {
		if o.Shards != 0 {
			return o, usagef("--shards and --shard-size cannot be combined")
		}
		if o.ShardSize, err = parseSize(c.String("shard-size")); err != nil {
			return o, usagef("--shard-size: %v", err)
		}
	}
	return o, nil
}

// readConfig reads a config.json, which is small.
func readConfig(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, usagef("%s is a directory; name the config.json itself", path)
	}
	return readSmall(path, maxWritten)
}

// parseSize reads a number of bytes: decimal digits and a unit, or none.
func parseSize(s string) (int64, error) {
	number := strings.TrimRight(s, "kKMGTiB")
	units := map[string]float64{"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
	unit, ok := units[s[len(number):]]
	n, err := strconv.ParseFloat(number, 64)
	if bytes := n * unit; ok && err == nil && bytes >= 1 && bytes < math.MaxInt64 {
		return int64(math.Round(bytes)), nil
	}
	return 0, fmt.Errorf("%q is not a size; want 5GB, 512MiB or a number of bytes", s)
}

// checkSize is the Action of a flag that is a number of bytes.
func checkSize(name string) func(*cli.Context, string) error {
	return func(_ *cli.Context, text string) error {
		if _, err := parseSize(text); err != nil {
			return usagef("invalid --%s: %v", name, err)
		}
		return nil
	}
}

func likeNames() []string {
	var names []string
	for _, l := range synth.Likes() {
		names = append(names, l.Name)
	}
	return names
}

// columns breaks a list of words into lines of at most width characters, indented by two.
func columns(words []string, width int) string {
	var b strings.Builder
	line := " "
	for _, w := range words {
		if len(line)+1+len(w) > width {
			b.WriteString(line + "\n")
			line = " "
		}
		line += " " + w
	}
	b.WriteString(line)
	return b.String()
}
