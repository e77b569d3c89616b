package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/hub"
	"github.com/lowpack/lowpack/internal/version"
)

func pullCommand() *cli.Command {
	return &cli.Command{
		Name:      "pull",
		Usage:     "download a model from the Hugging Face hub",
		ArgsUsage: "ORG/NAME[@REVISION][:FILE]",
		UsageText: "lowpack pull ORG/NAME[@REVISION][:FILE]",
		Description: `Only the files that a conversion needs are downloaded: weights in safetensors files, configuration, tokenizer. They go into
the cache that the Python package huggingface_hub uses, and each is checked against the digest that the hub lists. An
interrupted download is resumed by the next one. The folder of the model is printed to standard output.

Behind a colon stands a GGUF file, or the end of its name, such as Q4_0; a model that has one GGUF and no safetensors files needs no
name. It is downloaded alone, with all its parts, and its path is printed.

Wherever lowpack takes a checkpoint it takes ORG/NAME too, unless a file or folder of that name exists.

Environment: HF_TOKEN for private and gated models, HF_HOME or HF_HUB_CACHE for the place of the cache, HF_ENDPOINT for
another hub, HF_HUB_OFFLINE=1 to use the cache alone.

  lowpack pull microsoft/bitnet-b1.58-2B-4T-bf16
  lowpack pull Qwen/Qwen3-0.6B-GGUF:Q8_0
  lowpack convert microsoft/bitnet-b1.58-2B-4T -o model.safetensors
  lowpack run microsoft/bitnet-b1.58-2B-4T --chat`,
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 1, "ORG/NAME"); err != nil {
				return err
			}
			name, err := hub.ParseName(c.Args().First())
			if err != nil {
				return usagef("%v", err)
			}
			path, err := pull(c, name)
			if err == nil {
				_, err = fmt.Fprintln(c.App.Writer, path)
			}
			return err
		},
	}
}

// pull downloads the missing files of a model and returns its folder, or its GGUF file.
func pull(c *cli.Context, name hub.Name) (string, error) {
	client, err := hub.FromEnvironment(version.Tool)
	if err != nil {
		return "", err
	}
	bar := newProgress(besideResult(c), "pull")
	r, err := client.Pull(c.Context, name, func(done, total int64, file string) { bar.set(done, total, file) })
	bar.done()
	if err != nil {
		return "", err
	}
	if r.Renamed != "" {
		note(c, fmt.Sprintf("%s is called %s now: use that name", name.ID(), r.Renamed))
	}
	return r.Path, nil
}

// checkpointOf returns the path of a checkpoint argument: an existing path; otherwise the name of a packed file in the
// cache, or ORG/NAME of a model on the hub.
func checkpointOf(c *cli.Context, arg string) (string, error) {
	path, err := modelPath(arg)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	name, err := hub.ParseName(arg)
	if err != nil {
		return arg, missing(arg, "a file, a directory, or ORG/NAME of a model on the hub")
	}
	if path, err = pull(c, name); err != nil {
		return "", fmt.Errorf("there is no file or folder %s%s, and the hub: %w", arg, nearModel(arg), err)
	}
	return path, nil
}
