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

// program is one of a release, which has archives and packages of its own.
type program struct {
	name        string
	summary     string
	description string // behind the summary, in lines
	systems     []string
	alone       bool                // without manual pages, completions and the service
	needs       map[string][]string // by the format of a package; VERSION is that of this one
	recommends  []string            // packages of every format
}

// The programs: the twin has drivers of devices, which are libraries of the system (docs/DEVICES.md).
var (
	tool = &program{name: "lowpack", summary: summary, systems: []string{"linux", "darwin", "windows"}, description: `
Takes a checkpoint of an ultra-low-bit language model (ternary, 2-bit, 1-bit),
repacks its weights into the bytes that CPU kernels stream, proves that those
bytes compute what the checkpoint says, runs them and serves them.`}
	twin = &program{name: "lowpack-vulkan", summary: "lowpack with drivers of Vulkan and CUDA devices",
		systems: []string{"linux", "windows"}, alone: true, description: `
The same program with drivers of devices, which lowpack becomes when a command
line has --device: the same bytes, computed on a GPU.`,
		needs: map[string][]string{
			"deb": {"lowpack (= VERSION)", "libc6 (>= 2.17)", "libvulkan1"},
			"rpm": {"lowpack = VERSION", "libvulkan.so.1()(64bit)"},
		},
		recommends: []string{"mesa-vulkan-drivers"}}
)

// platform is where a program runs.
type platform struct {
	os, arch string
	wheel    string // the platform tags of wheels for it
}

// build is a program for a platform.
type build struct {
	*program
	platform
}

// builds are those of a program for the systems that it runs on, or for one of them.
func (p *program) builds(system ...string) (list []build) {
	if len(system) == 0 {
		system = p.systems
	}
	for _, on := range platforms {
		if slices.Contains(system, on.os) {
			list = append(list, build{p, on})
		}
	}
	return list
}

// builds are those of all programs.
func builds(system ...string) []build {
	return append(tool.builds(system...), twin.builds(system...)...)
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

// exe is the name of the program itself.
func (b build) exe() string { return b.name + b.suffix() }

// bare is the name under which the program alone is published.
func (b build) bare() string { return b.name + "-" + b.os + "-" + b.arch + b.suffix() }

// suffix is that of programs of the system.
func (b build) suffix() string {
	if b.os == "windows" {
		return ".exe"
	}
	return ""
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

// read reads the bytes of a program.
func (r *release) read(b build) ([]byte, error) {
	return os.ReadFile(filepath.Join(r.dist, b.bare()))
}

// tree is what lies below a prefix such as /usr/local where the program is installed.
func (r *release) tree(b build) ([]file, error) {
	data, err := r.read(b)
	if err != nil {
		return nil, err
	}
	files := []file{{"bin/" + b.exe(), 0o755, data}}
	if !b.alone {
		files = append(files, r.share...)
	}
	return append(files, below(b.documents(), r.licenses)...), nil
}

// documents is the folder of a program's documents below a prefix.
func (b build) documents() string { return "share/doc/" + b.name + "/" }

// write puts a file into the release.
func (r *release) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.dist, name), data, 0o644)
}
