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

// unit is the service of docs/examples; it is installed, not enabled.
const unit = "docs/examples/serve/lowpack.service"

// linuxPackages writes a .deb and a .rpm of each program for each architecture.
func linuxPackages(r *release) error {
	for _, b := range builds("linux") {
		tree, err := r.linuxTree(b)
		if err != nil {
			return err
		}
		stage, err := os.MkdirTemp("", "lowpack-packaging-")
		if err != nil {
			return err
		}
		err = r.linuxPackage(b, stage, tree)
		os.RemoveAll(stage)
		if err != nil {
			return err
		}
	}
	return nil
}

// linuxTree is the tree of the program below /usr, as distributions have it: pages compressed, and a service.
func (r *release) linuxTree(b build) ([]file, error) {
	tree, err := r.tree(b)
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
	if !b.alone {
		service, err := r.service()
		if err != nil {
			return nil, err
		}
		tree = append(tree, service)
	}
	changes, err := fill("templates/changelog", map[string]string{
		"Name":       b.name,
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
	rights, err := fill("templates/copyright", map[string]string{"Documents": "/usr/" + b.documents()})
	return append(tree,
		file{b.documents() + copyright, 0o644, rights},
		file{b.documents() + changelog, 0o644, changes}), err
}

// service is the unit with the paths of distributions.
func (r *release) service() (file, error) {
	text, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(unit)))
	text = bytes.ReplaceAll(text, []byte("/usr/local/bin/"), []byte("/usr/bin/"))
	text = bytes.ReplaceAll(text, []byte("/etc/systemd/"), []byte("/usr/lib/systemd/"))
	return file{"lib/systemd/system/" + path.Base(unit), 0o644, text}, err
}

// Where zsh looks for what packages bring.
const (
	zsh       = "share/zsh/site-functions/_lowpack"
	zshDebian = "share/zsh/vendor-completions/_lowpack"
)

// Documents of Debian's packages.
const (
	copyright = "copyright"
	changelog = "changelog.Debian.gz"
)

// only says which format alone has a file: Debian names the licence in copyright, and wants none beside it.
func (b build) only(name string) string {
	return map[string]string{
		b.documents() + "LICENSE": "rpm",
		b.documents() + copyright: "deb",
		b.documents() + changelog: "deb",
		zsh:                       "rpm",
		zshDebian:                 "deb",
	}[name]
}

// linuxPackage writes the packages of one architecture; nfpm reads files, which are put below stage.
func (r *release) linuxPackage(b build, stage string, tree []file) error {
	// dpkg removes folders that become empty, rpm those that a package names.
	contents := files.Contents{{
		Destination: "/usr/" + strings.TrimSuffix(b.documents(), "/"), Type: files.TypeDir, Packager: "rpm",
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
			Source: source, Destination: "/usr/" + f.name, Packager: b.only(f.name),
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.date},
		})
	}
	for _, format := range []string{"deb", "rpm"} {
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: b.name, Arch: b.arch, Platform: b.os, Version: r.version, Release: "1", Section: "science",
			Priority:    "optional",
			Maintainer:  maintainer,
			Description: b.summary + b.description,
			Homepage:    home,
			License:     "Apache-2.0",
			MTime:       r.date, DisableGlobbing: true,
			Overridables: nfpm.Overridables{
				Contents: contents, Umask: 0o022, Recommends: b.recommends,
				RPM: nfpm.RPM{Summary: b.summary, BuildHost: "lowpack", Group: "Unspecified"},
			},
		})
		info.Depends = needs(b, info, format)
		if err := r.nfpm(format, info); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	return nil
}

// needs are the packages that one depends on, those of this release with its version as the format writes it.
func needs(b build, info *nfpm.Info, format string) (list []string) {
	version := info.Version
	if info.Prerelease != "" {
		version += "~" + info.Prerelease
	}
	if info.VersionMetadata != "" {
		version += "+" + info.VersionMetadata
	}
	for _, each := range b.program.needs[format] {
		list = append(list, strings.ReplaceAll(each, "VERSION", version+"-"+info.Release))
	}
	return list
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
