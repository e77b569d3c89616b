package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers its format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers its format
)

const maintainer = "The lowpack authors <lowpack@users.noreply.github.com>"

const description = summary + `
Takes a checkpoint of an ultra-low-bit language model (ternary, 2-bit, 1-bit),
repacks its weights into the bytes that CPU kernels stream, proves that those
bytes compute what the checkpoint says, runs them and serves them.`

// unit is the service of docs/examples; it is installed, not enabled.
const unit = "docs/examples/serve/lowpack.service"

// linuxPackages writes a .deb and a .rpm for each architecture.
func linuxPackages(r *release) error {
	for _, p := range linux() {
		tree, err := r.linuxTree(p)
		if err != nil {
			return err
		}
		stage, err := os.MkdirTemp("", "lowpack-packaging-")
		if err != nil {
			return err
		}
		err = r.linuxPackage(p, stage, tree)
		os.RemoveAll(stage)
		if err != nil {
			return err
		}
	}
	return nil
}

// linuxTree is the tree of the program below /usr, as distributions have it: pages compressed, and a service.
func (r *release) linuxTree(p platform) ([]file, error) {
	tree, err := r.tree(p)
	if err != nil {
		return nil, err
	}
	for i, f := range tree {
		switch {
		case strings.HasPrefix(f.name, "share/man/"):
			tree[i].name += ".gz"
			if tree[i].data, err = gzipOf(f.data); err != nil {
				return nil, err
			}
		case f.name == zsh:
			tree = append(tree, file{zshDebian, f.mode, f.data})
		}
	}
	service, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(unit)))
	if err != nil {
		return nil, err
	}
	service = bytes.ReplaceAll(service, []byte("/usr/local/bin/"), []byte("/usr/bin/"))
	service = bytes.ReplaceAll(service, []byte("/etc/systemd/"), []byte("/usr/lib/systemd/"))
	changes, err := fill("templates/changelog", map[string]string{
		"Version":    r.version,
		"Home":       home,
		"Maintainer": maintainer,
		"Date":       r.date.Format("Mon, 02 Jan 2006 15:04:05 -0700"),
	})
	if err != nil {
		return nil, err
	}
	if changes, err = gzipOf(changes); err != nil {
		return nil, err
	}
	rights, err := templates.ReadFile("templates/copyright")
	return append(tree,
		file{"lib/systemd/system/" + path.Base(unit), 0o644, service},
		file{"share/doc/lowpack/copyright", 0o644, rights},
		file{"share/doc/lowpack/changelog.Debian.gz", 0o644, changes}), err
}

// Where zsh looks for what packages bring.
const (
	zsh       = "share/zsh/site-functions/_lowpack"
	zshDebian = "share/zsh/vendor-completions/_lowpack"
)

// only says which format alone has a file: Debian names the licence in copyright, and wants none beside it.
var only = map[string]string{
	"share/doc/lowpack/LICENSE":             "rpm",
	"share/doc/lowpack/copyright":           "deb",
	"share/doc/lowpack/changelog.Debian.gz": "deb",
	zsh:                                     "rpm",
	zshDebian:                               "deb",
}

// linuxPackage writes the packages of one architecture; nfpm reads files, which are put below stage.
func (r *release) linuxPackage(p platform, stage string, tree []file) error {
	// dpkg removes folders that become empty, rpm those that a package names.
	contents := files.Contents{{
		Destination: "/usr/share/doc/lowpack", Type: files.TypeDir, Packager: "rpm",
		FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o755, MTime: r.date},
	}}
	for _, f := range tree {
		source := filepath.Join(stage, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(source, f.data, f.mode); err != nil {
			return err
		}
		contents = append(contents, &files.Content{
			Source: source, Destination: "/usr/" + f.name, Packager: only[f.name],
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.date},
		})
	}
	for _, format := range []string{"deb", "rpm"} {
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: "lowpack", Arch: p.arch, Platform: p.os, Version: r.version, Release: "1", Section: "science",
			Priority:    "optional",
			Maintainer:  maintainer,
			Description: description,
			Homepage:    home,
			License:     "Apache-2.0",
			MTime:       r.date, DisableGlobbing: true,
			Overridables: nfpm.Overridables{
				Contents: contents, Umask: 0o022,
				RPM: nfpm.RPM{Summary: summary, BuildHost: "lowpack", Group: "Unspecified"},
			},
		})
		if err := r.nfpm(format, info); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	return nil
}

func (r *release) nfpm(format string, info *nfpm.Info) error {
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := packager.Package(info, &b); err != nil {
		return err
	}
	return r.write(packager.ConventionalFileName(info), b.Bytes())
}
