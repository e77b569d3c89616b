package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/hub"
	"github.com/lowpack/lowpack/cmd/lowpack/internal/registry"
	"github.com/lowpack/lowpack/internal/version"
)

func pullCommand() *cli.Command {
	return &cli.Command{
		Name:      "pull",
		Usage:     "download a model from the Hugging Face hub, or from an OCI registry",
		ArgsUsage: "ORG/NAME[@REVISION][:FILE]",
		UsageText: "lowpack pull ORG/NAME[@REVISION][:FILE]\n" +
			"  lowpack pull oci://HOST[:PORT]/NAME[:TAG|@sha256:DIGEST] [-o FILE]",
		Description: `Only the files that a conversion needs are downloaded: weights in safetensors files, configuration, tokenizer. They go into
the cache that the Python package huggingface_hub uses, and each is checked against the digest that the hub lists. An
interrupted download is resumed by the next one. The folder of the model is printed to standard output.

Behind a colon stands a GGUF file, or the end of its name, such as Q4_0; a model that has one GGUF and no safetensors files needs no
name. It is downloaded alone, with all its parts, and its path is printed.

Wherever lowpack takes a checkpoint it takes ORG/NAME too, unless a file or folder of that name exists.

oci://HOST/NAME is a packed file that lowpack push uploaded, with its signature if it has one. Without -o it goes into
the user's cache, where lowpack list shows it; run, serve, verify, eval, batch, inspect and tokenize take oci://HOST/NAME
in the place of FILE. Digests of the manifest and of every blob are checked before the file gets its name.

Environment: HF_TOKEN for private and gated models, HF_HOME or HF_HUB_CACHE for the place of the cache, HF_ENDPOINT for
another hub, HF_HUB_OFFLINE=1 to use the cache alone. DOCKER_CONFIG for the folder of the docker configuration, which
has the credentials of registries.

  lowpack pull microsoft/bitnet-b1.58-2B-4T-bf16
  lowpack pull Qwen/Qwen3-0.6B-GGUF:Q8_0
  lowpack convert microsoft/bitnet-b1.58-2B-4T -o model.safetensors
  lowpack run microsoft/bitnet-b1.58-2B-4T --chat
  lowpack pull oci://registry.example.com/models/tiny:1.0 -o model.safetensors`,
		Flags: []cli.Flag{
			output{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, TakesFile: true,
				Usage:       "write what a registry has to `FILE`, and its signature to FILE.sig",
				DefaultText: "in the cache"}},
			plainHTTPFlag(),
		},
		Action: runPull,
	}
}

func runPull(c *cli.Context) error {
	if err := wantArgs(c, 1, "ORG/NAME or oci://HOST/NAME"); err != nil {
		return err
	}
	path, err := pullNamed(c, c.Args().First())
	if err == nil {
		_, err = fmt.Fprintln(c.App.Writer, path)
	}
	return err
}

func pullNamed(c *cli.Context, arg string) (string, error) {
	if registry.Is(arg) {
		return pullArtifact(c, arg, c.String("output"))
	}
	for _, flag := range []string{"output", plainHTTPName} {
		if c.IsSet(flag) {
			return "", usagef("--%s is for oci://HOST/NAME; models of the hub go into its cache", flag)
		}
	}
	name, err := hub.ParseName(arg)
	if err != nil {
		return "", usagef("%v", err)
	}
	return pull(c, name)
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
// cache, or ORG/NAME of a model on the hub; for commands that take packed files, also that of one in a registry.
func checkpointOf(c *cli.Context, arg string) (string, error) {
	switch {
	case registry.Is(arg) && taking[c.Command.Name].packed:
		return pullArtifact(c, arg, "")
	case registry.Is(arg):
		return "", notPulled(arg)
	}
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
