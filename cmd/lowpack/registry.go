package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/registry"
	"github.com/lowpack/lowpack/internal/printable"
	"github.com/lowpack/lowpack/internal/version"
)

func pushCommand() *cli.Command {
	return &cli.Command{
		Name:      "push",
		Usage:     "upload a packed file to an OCI registry",
		ArgsUsage: "FILE oci://HOST/NAME[:TAG]",
		UsageText: "lowpack push FILE oci://HOST[:PORT]/NAME[:TAG] [flags]",
		Description: `The packed file, and its signature FILE.sig if there is one, become an artifact of the CNCF ModelPack specification,
which docs/REGISTRY.md describes. It is cut into layers where two files of one model can be alike; layers that the
repository has are not sent again, so that the same command continues after an interruption. The tag, latest if none is
given, appears last. The name by digest is printed to standard output.

Credentials are those of the docker configuration (docker login, credential helpers, DOCKER_CONFIG). Registries other
than localhost are accessed over TLS.

  lowpack push model.safetensors oci://registry.example.com/models/tiny:1.0
  lowpack push model.safetensors oci://localhost:5000/tiny
  lowpack pull oci://registry.example.com/models/tiny:1.0 -o model.safetensors`,
		Flags:  []cli.Flag{plainHTTPFlag()},
		Action: runPush,
	}
}

// plainHTTPName is the flag that allows registries without TLS.
const plainHTTPName = "plain-http"

func plainHTTPFlag() cli.Flag {
	return &cli.BoolFlag{Name: plainHTTPName, Usage: "use registries without TLS, as on localhost"}
}

func runPush(c *cli.Context) error {
	if err := wantArgs(c, 2, "a packed file and oci://HOST/NAME"); err != nil {
		return err
	}
	model, err := packedPath(c.Args().First())
	if err != nil {
		return err
	}
	name, client, err := artifact(c, c.Args().Get(1))
	if err != nil {
		return err
	}
	if name.Digest != "" {
		return usagef("%s names an artifact by its digest, which push computes: want oci://HOST/NAME:TAG", name)
	}
	signature, err := readSmall(signatureOf(model), registry.MaxSignature)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		detail(c, "with its signature "+signatureOf(model))
	}
	bar := newProgress(besideResult(c), "push")
	done, err := client.Push(c.Context, name, model, signature, func(done, total int64, phase string) {
		bar.setIn(size, done, total, phase)
	})
	bar.done()
	if err != nil {
		return err
	}
	detail(c, fmt.Sprintf("%s of %s sent, the registry had the rest", size(done.Sent), size(done.Bytes)))
	_, err = fmt.Fprintln(c.App.Writer, done.Name)
	return err
}

// artifact parses the name of an artifact, and returns a client for its registry.
func artifact(c *cli.Context, arg string) (registry.Name, *registry.Client, error) {
	name, err := registry.ParseName(arg)
	if err != nil {
		return name, nil, usagef("%v", err)
	}
	client, err := registry.FromEnvironment(version.Tool, c.Bool(plainHTTPName))
	return name, client, err
}

// pullArtifact downloads a packed file from a registry to a path, or into the user's cache, and returns its path.
func pullArtifact(c *cli.Context, arg, target string) (string, error) {
	name, client, err := artifact(c, arg)
	if err != nil {
		return "", err
	}
	if path, err := cachedArtifact(name); target == "" && name.Digest != "" && (err != nil || isFile(path)) {
		return path, err
	}
	a, err := client.Resolve(c.Context, name)
	if err != nil {
		return "", err
	}
	if target == "" {
		if target, err = cachedArtifact(a.Name); err != nil {
			return "", err
		}
		if isFile(target) {
			return target, nil
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return "", err
		}
	}
	bar := newProgress(besideResult(c), "pull")
	err = client.Pull(c.Context, a, target, bar.set)
	bar.done()
	return target, err
}

// cachedArtifact returns the path of an artifact in the user's cache, by name and digest: all of it, since a file that
// is there is taken for the artifact, and manifests that agree in a few digits are quickly found.
func cachedArtifact(n registry.Name) (string, error) {
	folder, err := packedFolder()
	if err != nil {
		return "", fmt.Errorf("no folder for packed files: %w; pull to a path first: lowpack pull %s -o FILE", err, n)
	}
	key := strings.TrimPrefix(n.Digest, "sha256:")
	return filepath.Join(folder, fmt.Sprintf("%.100s-%s.safetensors", n.Base(), key)), nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// packedAt is packedPath for an argument that may also name an artifact of a registry.
func packedAt(c *cli.Context, arg string) (string, error) {
	if registry.Is(arg) {
		return pullArtifact(c, arg, "")
	}
	return packedPath(arg)
}

// notPulled is the error of a command that takes no artifact.
func notPulled(arg string) error {
	return usagef("%s names a packed file in a registry, which this command does not read: lowpack pull it first, "+
		"with -o FILE", printable.Line(arg))
}
