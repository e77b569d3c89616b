package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/hub"
	"github.com/lowpack/lowpack/cmd/lowpack/internal/registry"
	"github.com/lowpack/lowpack/internal/version"
)

// local is a model of a cache, or of a folder, by the name that commands take.
type local struct {
	name string
	path string
	hub  *hub.Local // nil: not of the cache of the hub
	left *leftover  // nil: complete
}

// files returns the paths of a model.
func (l *local) files() []string {
	switch {
	case l.left != nil:
		return l.left.files
	case l.hub != nil:
		return l.hub.Files()
	}
	return []string{l.path}
}

// packedFolder returns the folder in which run and serve cache packed files.
func packedFolder() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "lowpack", "packed"), err
}

// packedModels returns the cached packed files, named by file name without extension and without the hub's
// organization.
func packedModels() (list []local, err error) {
	folder, err := packedFolder()
	if err != nil {
		return nil, nil // no cache, no files
	}
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), packedExt) {
			list = append(list, local{name: cachedName(e.Name()), path: filepath.Join(folder, e.Name())})
		}
	}
	return list, nil
}

// cachedName returns the name of a model by that of its packed file in the cache.
func cachedName(file string) string {
	return hubPrefix.ReplaceAllString(strings.TrimSuffix(file, packedExt), "")
}

// packedExt is the extension of packed files.
const packedExt = ".safetensors"

// Parts of the names that cachedFile and cachedArtifact return: of a hub model, and of any.
var (
	hubPrefix = regexp.MustCompile(`^models--[A-Za-z0-9._-]+?--`)
	cachedKey = regexp.MustCompile(`-[0-9a-f]{16}([0-9a-f]{48})?$`)
)

// hubModels returns the models in the hub's cache.
func hubModels() (list []local, err error) {
	client, err := hub.FromEnvironment(version.Tool)
	if err != nil {
		return nil, err
	}
	models, err := client.List()
	for i := range models {
		list = append(list, local{name: models[i].String(), path: models[i].Path, hub: &models[i]})
	}
	return list, err
}

// calledSo reports whether a name denotes a model; a packed file also matches without the key at the end of its name.
func (l *local) calledSo(name string) bool { return name == l.name || name == l.short() }

func (l *local) short() string {
	if strings.Contains(l.name, "/") { // of the hub, complete or not
		return l.name
	}
	return cachedKey.ReplaceAllString(l.name, "")
}

// named finds a model by name; nil if there is none, with a suggestion. An ambiguous name is refused.
func named(list []local, name string) (found *local, hint string, err error) {
	var all, known []string
	for i := range list {
		l := &list[i]
		known = append(known, l.short(), l.name)
		if l.calledSo(name) {
			found, all = l, append(all, l.name)
		}
	}
	switch len(all) {
	case 0:
		return nil, didYouMean(name, known), nil
	case 1:
		return found, "", nil
	}
	return nil, "", ambiguous(name, all...)
}

// ambiguous is the error of a name that several models have.
func ambiguous(name string, all ...string) error {
	return usagef("%s means %d models; name one of them: %s", name, len(all), strings.Join(all, ", "))
}

// modelPath returns the file that an argument denotes: an existing path, else possibly the name of a packed file in the
// cache. Other arguments are returned unchanged.
func modelPath(arg string) (string, error) {
	if _, err := os.Lstat(arg); !errors.Is(err, fs.ErrNotExist) || strings.ContainsAny(arg, `/\`) {
		return arg, nil
	}
	list, err := packedModels()
	if err != nil {
		return "", err
	}
	l, hint, err := named(list, arg)
	switch {
	case err != nil:
		return "", err
	case l != nil:
		return l.path, nil
	case hint != "":
		return "", fmt.Errorf("%s: %w%s; lowpack list shows the models at hand", arg, fs.ErrNotExist, hint)
	}
	return arg, nil
}

// packedPath is modelPath for an argument that can be nothing else.
func packedPath(arg string) (string, error) {
	if registry.Is(arg) {
		return "", notPulled(arg)
	}
	path, err := modelPath(arg)
	if err == nil {
		err = missing(path, "a packed file")
	}
	return path, err
}

// missing is the error of a path where there is nothing, and which is no name either.
func missing(path, want string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // a dangling link exists, too
	}
	return fmt.Errorf("%s: %w, and no model has this name: want %s; lowpack list shows the models at hand", path,
		fs.ErrNotExist, want)
}

// nearModel suggests a model of the hub's cache for a name.
func nearModel(name string) string {
	list, _ := hubModels() // no suggestions if it cannot be read
	_, hint, _ := named(list, name)
	return hint
}

// taking lists which commands, and which flags, accept the names of packed files, and of models in the hub's cache.
var taking = map[string]struct{ packed, hub bool }{
	"verify": {packed: true}, "sign": {packed: true}, "repack": {packed: true}, "unpack": {packed: true},
	"export": {packed: true}, "bench": {packed: true}, "convert": {hub: true}, "recommend": {hub: true},
	"pull": {hub: true}, "push": {packed: true}, "run": {true, true}, "serve": {true, true}, "batch": {true, true},
	"eval": {true, true}, "inspect": {true, true},
	"tokenize": {true, true}, "rm": {true, true},
	"--source": {true, true}, "--against": {true, true}, "--draft": {packed: true},
}

// modelWords returns the names of models that a command or flag accepts, each preceded by before, for completion.
func modelWords(taker, before string) (list [][2]string) {
	takes := taking[taker]
	if takes.packed {
		models, _ := packedModels() // unreadable models are not offered
		for _, l := range models {
			list = append(list, [2]string{before + l.name, "packed file"})
		}
	}
	if takes.hub {
		models, _ := hubModels()
		for _, l := range models {
			list = append(list, [2]string{before + l.name, "downloaded"})
		}
	}
	return list
}
