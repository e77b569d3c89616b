// Command lowpack converts ultra-low-bit language models to packed files, verifies them and runs them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/manual"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/mmap"
)

func main() {
	err := checkLimits()
	if err == nil {
		err = checkTwin()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "lowpack: %v\n", err)
		os.Exit(exitCode(err))
	}
	becomeTwin(os.Args)
	os.Exit(Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// Main runs one command line and returns its exit code: 0 good, 1 bad input or a failed check, 2 wrong usage, 3 the
// environment failed, 130 and 143 interrupted.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out, notes := newScreen(stdout, "standard output"), newScreen(stderr, "standard error")
	defer notes.finish()
	ctx, stop := notify(context.Background(), notes)
	defer stop()
	err := run(ctx, args, stdin, out, notes)
	if failed := out.finish(); err == nil && failed != nil {
		err = failed
	}
	switch cause := interrupted(ctx); {
	case err == errDrained:
		err = nil
	case cause != nil:
		err = cause
	}
	if errors.Is(err, syscall.EFBIG) {
		err = fmt.Errorf("%w: the file system, or the limit of this process (ulimit -f), allows no larger file", err)
	}
	if err != nil && err != errReported {
		fmt.Fprintf(notes, "lowpack: %s\n", strings.ReplaceAll(err.Error(), "\n", "\nlowpack: "))
	}
	return exitCode(err)
}

// typedLine is the key of the words of the command line, in App.Metadata.
const typedLine = "typed"

// run runs a command line.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	app := newApp(stdin, stdout, stderr)
	app.Metadata = map[string]any{typedLine: args[min(1, len(args)):]}
	if len(args) > 1 && args[1] == manual.CompleteWord {
		manual.Complete(stdout, app, args[2:], modelWords)
		return nil
	}
	args, err := flagsFirst(app, helpLast(args))
	if err != nil {
		return err
	}
	return mmap.Guard(func() error { return app.RunContext(ctx, args) })
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	app := &cli.App{
		Name:      "lowpack",
		Usage:     "pack ultra-low-bit language models for CPUs, prove the bytes, run them",
		UsageText: "lowpack COMMAND [flags] [arguments]",
		Description: `lowpack takes a checkpoint of an ultra-low-bit language model (ternary, 2-bit, 1-bit), repacks its weights into the bytes
that CPU kernels stream, proves that those bytes compute what the checkpoint says, and runs them.

lowpack COMMAND --help explains a command, with examples. Flags may stand before or after the arguments. Results are
written to standard output, notes and progress to standard error.

  lowpack convert MODEL_DIR --layout vnni4i -o model.safetensors
  lowpack verify model.safetensors
  lowpack run model.safetensors -p "Once upon a time"`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "version", Usage: "print the version",
			DisableDefaultText: true}},
		CustomAppHelpTemplate:     manual.AppHelp,
		HideVersion:               true,
		HideHelpCommand:           true,
		Reader:                    stdin,
		Writer:                    stdout,
		ErrWriter:                 stderr,
		ExitErrHandler:            func(*cli.Context, error) {}, // Main sets the exit code
		OnUsageError:              onUsageError,
		CommandNotFound:           func(*cli.Context, string) {},
		Action:                    noCommand,
		DisableSliceFlagSeparator: true,
		Commands:                  commands(),
	}
	for _, c := range app.Commands {
		setUp(c)
		for _, sub := range c.Subcommands {
			setUp(sub)
		}
	}
	return app
}

// setUp makes a command check its paths, report wrong usage and show its help like all others.
func setUp(c *cli.Command) {
	c.OnUsageError = onUsageError
	c.CustomHelpTemplate = manual.CommandHelp
	c.HideHelpCommand = true
	if action := c.Action; action != nil {
		c.Flags = append(c.Flags, verbosityFlags()...)
		c.Action = func(c *cli.Context) error {
			for _, check := range []cli.ActionFunc{checkVerbosity, checkISA, checkPaths, checkDrawing} {
				if err := check(c); err != nil {
					return err
				}
			}
			if c.Command.Name != versionName {
				if used := takeChoices(); used.Ignored != "" {
					note(c, used.remedy())
				}
			}
			return action(c)
		}
	}
	for _, f := range c.Flags {
		if b, ok := f.(*cli.BoolFlag); ok {
			b.DisableDefaultText = true
		}
	}
}

// commands in the order of a user's work; one file each.
func commands() []*cli.Command {
	return []*cli.Command{
		pullCommand(),
		pushCommand(),
		convertCommand(),
		verifyCommand(),
		signCommand(),
		runCommand(),
		serveCommand(),
		batchCommand(),
		listCommand(),
		rmCommand(),
		inspectCommand(),
		mergeCommand(),
		repackCommand(),
		unpackCommand(),
		exportCommand(),
		layoutsCommand(kernelSets),
		packCommand(),
		evalCommand(),
		tokenizeCommand(),
		synthCommand(),
		benchCommand(),
		devicesCommand(),
		completionCommand(),
		manCommand(),
		versionCommand(),
	}
}

// versionName is the name of the command that prints also what others only note.
const versionName = "version"

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  versionName,
		Usage: "print the version and what this CPU offers",
		Description: `Revision is the commit that the program was built from, with +dirty if files had changed since. Of the instruction sets
that kernels of this build can use on this CPU, the first is chosen. Tiles says whether products of many tokens use the tile
registers of AMX, and why not. Tuning is how kernels on x86 read weights, chosen by vendor and
family of the CPU; it changes speed and nothing else. NUMA says what the process may use of a machine with several nodes.
Layouts says what decides between kernels of one instruction set, and batches from how many tokens on the instruction sets
multiply in another way, both with what they were measured on. Choices names the file in which lowpack bench machine --save
keeps what it measured on this CPU; tuning and batches go by it.

  lowpack version --json`,
		UsageText: "lowpack version [--json]",
		Flags:     []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 0, ""); err != nil {
				return err
			}
			return printVersion(c)
		},
	}
}

func printVersion(c *cli.Context) error {
	used := takeChoices()
	v := buildInfo()
	v.Choices = used
	if c.Bool("json") {
		if err := printJSON(c.App.Writer, v); err != nil {
			return err
		}
	} else {
		rows := [][]string{
			{"lowpack " + v.Version, ""}, {"revision", v.Revision}, {"go", v.Go}, {"platform", v.Platform}, {"kernels",
				strings.Join(words(v.ISAs), " ")},
		}
		if v.Tiles != "" {
			rows = append(rows, []string{"tiles", v.Tiles})
		}
		if v.Tuning.CPU != "" {
			rows = append(rows, []string{"tuning", v.Tuning.About},
				[]string{"", fmt.Sprintf("%s (%s)", v.Tuning.CPU, v.Tuning.Why)})
		}
		if text := nodesText(&v.NUMA); text != "" {
			rows = append(rows, []string{"numa", text})
		}
		rows = append(rows, []string{"layouts", "by instruction set, then by what " + kernel.MeasuredOn + " reached"})
		for first, i := "batches", 0; i < len(v.Thresholds); i++ {
			if t := &v.Thresholds[i]; t.InUse() {
				rows = append(rows, []string{first, t.String()})
				first = ""
			}
		}
		rows = append(rows, []string{"choices", choicesText(&used)})
		table(c.App.Writer, nil, rows)
	}
	return forcedISA()
}

// choicesText says what tuning and batches go by.
func choicesText(used *usedChoices) string {
	switch {
	case used.Ignored != "":
		return used.remedy()
	case used.File != "":
		return fmt.Sprintf("of %s, measured %s", used.File, used.Date)
	}
	return "those of the tables; lowpack bench machine --save measures them on this CPU"
}

// checkISA refuses an instruction set that this CPU lacks, before any work; version lists the available ones before
// that.
func checkISA(c *cli.Context) error {
	if c.Command.Name == versionName {
		return nil
	}
	return forcedISA()
}

func forcedISA() error {
	if err := kernel.Check(); err != nil {
		all := words([]kernel.ISA{kernel.AMX, kernel.AVX512VNNI, kernel.AVXVNNI, kernel.AVX2, kernel.DotProd,
			kernel.NEON,
			kernel.Generic})
		forced := os.Getenv(kernel.EnvISA)
		if slices.Contains(all, forced) {
			return usagef("%v", err) // spelled correctly, but not available
		}
		return usagef("%v%s", err, didYouMean(forced, all))
	}
	return nil
}
