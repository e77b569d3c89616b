package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/registry"
	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/version"
)

// packedOf returns a packed file for an argument of `lowpack run`: the argument itself, the file in the user's cache
// that it names, or one in a registry; for a checkpoint, the cached file of an earlier run, or a new one. A file that
// is not a packed one is left to whoever opens it.
func packedOf(c *cli.Context, arg string) (string, error) {
	if registry.Is(arg) {
		return pullArtifact(c, arg, "")
	}
	arg, err := modelPath(arg)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(arg)
	isModel := err == nil && (info.IsDir() || checkpoint.IsGGUF(arg))
	if _, err := os.Lstat(arg); !isModel && !os.IsNotExist(err) { // a dangling link exists
		return arg, nil // which the caller opens: once, as that takes milliseconds
	}
	if f, err := packed.Open(arg); err == nil { // whatever its name
		return arg, f.Close()
	}
	dir, err := checkpointOf(c, arg)
	if err != nil {
		return "", err
	}
	target, err := cachedFile(dir)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(target); err == nil {
		detail(c, "running the packed file "+target)
		return target, nil
	}
	return target, convertOnce(c, dir, target)
}

// convertOnce makes the packed file of the default options.
func convertOnce(c *cli.Context, dir, target string) error {
	bar := newProgress(besideResult(c), "convert")
	plan, err := convert.NewPlan(c.Context, dir, convert.Options{Progress: barOf(bar)})
	if err != nil {
		return err
	}
	defer plan.Close()
	if plan.Family == "" {
		return fmt.Errorf("%s holds weights without a model: there is nothing to run", dir)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	tell(c, plan.Notes, plan.Details)
	summary, err := plan.Run(c.Context, target)
	bar.done()
	if err != nil {
		return err
	}
	printSummary(besideResult(c), target, summary)
	return nil
}

// cachedFile returns the path of a checkpoint's packed file in the cache. The name depends on the program, and on the
// names, sizes and times of the files: a changed checkpoint is converted again.
func cachedFile(checkpoint string) (string, error) {
	folder, err := packedFolder()
	if err != nil {
		return "", fmt.Errorf("no folder for packed files: %w; convert first: lowpack convert %s -o FILE", err,
			checkpoint)
	}
	path, err := filepath.Abs(checkpoint)
	if err != nil {
		return "", err
	}
	files, err := filesOf(path)
	if err != nil {
		return "", err
	}
	key := sha256.New()
	fmt.Fprintf(key, "%s %s\n", version.Tool, version.Revision)
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil { // a dangling link: the conversion names it
			if info, err = os.Lstat(file); err != nil {
				return "", err
			}
		}
		fmt.Fprintf(key, "%s %d %d\n", file, info.Size(), info.ModTime().UnixNano())
	}
	name := filepath.Base(path)
	if entry := filepath.Dir(filepath.Dir(path)); filepath.Base(filepath.Dir(path)) == "snapshots" {
		name = filepath.Base(entry) // models--ORG--NAME instead of a commit
	}
	return filepath.Join(folder, fmt.Sprintf("%.100s-%s.safetensors", name, hex.EncodeToString(key.Sum(nil)[:8]))), nil
}

// filesOf lists the files of a checkpoint: all of a directory, or all parts of a GGUF.
func filesOf(path string) (files []string, err error) {
	if checkpoint.IsGGUF(path) {
		names, err := gguf.SplitNames(filepath.Base(path))
		for _, name := range names {
			files = append(files, filepath.Join(filepath.Dir(path), name))
		}
		return files, err
	}
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		files = append(files, filepath.Join(path, e.Name()))
	}
	return files, err
}
