package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	home    = "https://github.com/lowpack/lowpack"
	summary = "pack ultra-low-bit language models for CPUs, prove the bytes, run them"
)

// release is what one commit publishes.
type release struct {
	root, dist        string
	version, revision string
	date              time.Time // that of every packed file
	share             []file    // man pages and completions, below share/
	licenses          []file
}

// platform is one program of a release.
type platform struct {
	os, arch string
	wheel    string // the platform tags of wheels that hold it
}

// platforms have the oldest systems that Go supports: macOS 12. Static programs need no libc, so that glibc's and
// musl's tags are the lowest that pip knows.
var platforms = []platform{
	{"linux", "amd64", "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64"},
	{"linux", "arm64", "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64"},
	{"darwin", "amd64", "macosx_12_0_x86_64"},
	{"darwin", "arm64", "macosx_12_0_arm64"},
	{"windows", "amd64", "win_amd64"},
	{"windows", "arm64", "win_arm64"},
}

// linux are the platforms with packages and images.
func linux() []platform { return platforms[:2] }

// exe is the name of the program itself.
func (p platform) exe() string {
	if p.os == "windows" {
		return "lowpack.exe"
	}
	return "lowpack"
}

// bare is the name under which the program alone is published.
func (p platform) bare() string {
	return strings.Replace(p.exe(), "lowpack", "lowpack-"+p.os+"-"+p.arch, 1)
}

// file is one of an archive, a package or a layer.
type file struct {
	name string // with slashes; a folder ends in one
	mode fs.FileMode
	data []byte
}

// below returns the files in another folder.
func below(folder string, files []file) []file {
	out := slices.Clone(files)
	for i := range out {
		out[i].name = folder + out[i].name
	}
	return out
}

var constant = regexp.MustCompile(`(?m)^const (Version|Date) = "([^"]+)"$`)

// open reads what all packages share.
func open(root, dist, prefix, revision string) (*release, error) {
	source := filepath.Join(root, "internal", "version", "version.go")
	text, err := os.ReadFile(source)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, m := range constant.FindAllStringSubmatch(string(text), -1) {
		values[m[1]] = m[2]
	}
	r := &release{root: root, dist: dist, version: packageVersion(values["Version"], revision), revision: revision}
	if r.version == "" {
		return nil, fmt.Errorf("%s has no constant Version", source)
	}
	if r.date, err = time.Parse(time.DateOnly, values["Date"]); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	if r.share, err = readTree(prefix, "share"); err != nil {
		return nil, err
	}
	for _, name := range []string{"LICENSE", "THIRD-PARTY.txt"} {
		data, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil {
			return nil, err
		}
		r.licenses = append(r.licenses, file{name, 0o644, data})
	}
	return r, nil
}

// packageVersion is that of the source; between two releases, where many commits have one version, with the commit.
func packageVersion(version, revision string) string {
	if !strings.HasSuffix(version, "-dev") || revision == "" {
		return version
	}
	commit, changed, dirty := strings.Cut(revision, "+")
	version += "+" + commit[:min(12, len(commit))]
	if dirty {
		version += "." + changed
	}
	return version
}

// readTree reads the files of a folder below root, in the order of their names.
func readTree(root, folder string) (files []file, err error) {
	err = fs.WalkDir(os.DirFS(root), folder, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		files = append(files, file{name, 0o644, data})
		return err
	})
	return files, err
}

// program reads the program for a platform.
func (r *release) program(p platform) ([]byte, error) {
	return os.ReadFile(filepath.Join(r.dist, p.bare()))
}

// tree is what lies below a prefix such as /usr/local where the program is installed.
func (r *release) tree(p platform) ([]file, error) {
	program, err := r.program(p)
	if err != nil {
		return nil, err
	}
	files := append([]file{{"bin/" + p.exe(), 0o755, program}}, r.share...)
	return append(files, below("share/doc/lowpack/", r.licenses)...), nil
}

// write puts a file into the release.
func (r *release) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.dist, name), data, 0o644)
}
