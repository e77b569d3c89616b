package main

import (
	"io"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/manual"
)

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the script that makes a shell complete lowpack command lines",
		ArgsUsage: "SHELL",
		UsageText: "lowpack completion bash|zsh|fish",
		Description: `The shell then completes commands, flags, the known values of flags, and file names. The script asks this program, so it
need not be renewed with it. make install installs it for all users.

  source <(lowpack completion bash)                      # now; put it into ~/.bashrc to keep it
  lowpack completion zsh > "${fpath[1]}/_lowpack"        # zsh, at the next start
  lowpack completion fish > ~/.config/fish/completions/lowpack.fish`,
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 1, "SHELL: bash, zsh or fish"); err != nil {
				return err
			}
			shell := c.Args().First()
			if !slices.Contains(manual.Shells(), shell) {
				return unknownWord("SHELL", shell, manual.Shells())
			}
			_, err := c.App.Writer.Write(manual.Script(shell))
			return err
		},
	}
}

func manCommand() *cli.Command {
	return &cli.Command{
		Name:      "man",
		Usage:     "print the manual page of a command, or write all pages",
		ArgsUsage: "COMMAND",
		UsageText: "lowpack man [COMMAND]\n  lowpack man -o DIR",
		Description: `The pages are made from what the commands say about themselves, as --help prints it. Without COMMAND, the page is about
lowpack as a whole. make install puts all of them where man finds them.

  lowpack man convert | man -l -
  lowpack man -o ~/.local/share/man/man1`,
		Flags: []cli.Flag{outputFlag("write all pages into the directory `DIR`, which exists")},
		Action: func(c *cli.Context) error {
			dir := c.String("output")
			if dir != "" || c.NArg() > 1 {
				if err := wantArgs(c, 0, ""); err != nil {
					return err
				}
				return writePages(c.App, dir)
			}
			name := c.Args().First()
			text, ok := manual.Pages(c.App)[name]
			if !ok {
				return unknownCommand(c.App, name)
			}
			_, err := io.WriteString(c.App.Writer, text)
			return err
		},
	}
}

func writePages(app *cli.App, dir string) error {
	for command, text := range manual.Pages(app) {
		err := writeFile(filepath.Join(dir, manual.PageName(command)+".1"), func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
