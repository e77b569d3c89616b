// Package hub downloads models from the Hugging Face hub into the cache of the Python package huggingface_hub, so that
// a model is stored once.
//
// Layout of the cache (huggingface_hub 2.4.0, file_download.py): CACHE/models--ORG--NAME contains blobs/ETAG (the
// SHA-256 of a large file, the git blob id of a small one), snapshots/COMMIT/PATH (relative links to blobs) and
// refs/REVISION (the commit of a branch or tag); CACHE/.locks/models--ORG--NAME/ETAG.lock is locked with flock while a
// blob is written. A blob may be a relative link to CACHE/blobs/XX/XETHASH, which several models share
// (_shared_blobs.py).
package hub

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// Name is a model on the hub: ORG/NAME or ORG/NAME@REVISION, optionally followed by a colon and one of its GGUF files.
type Name struct {
	Org, Model string
	Revision   string // branch, tag or commit; default "main"
	File       string // GGUF file or the end of its name, such as Q4_0; "" = safetensors, or the only GGUF
}

var (
	part     = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9])?$`)
	revision = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,253}[A-Za-z0-9])?$`)
	commit   = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// ParseName parses ORG/NAME[@REVISION][:FILE]. It follows huggingface_hub's validate_repo_id: letters, digits, '-', '_'
// and '.', not at the ends, and neither ".." nor "--".
func ParseName(text string) (Name, error) {
	whole, file, hasFile := strings.Cut(text, ":")
	id, rev, hasRev := strings.Cut(whole, "@")
	if !hasRev {
		rev = "main"
	}
	org, model, ok := strings.Cut(id, "/")
	legal := func(s string) bool {
		return part.MatchString(s) && !strings.Contains(s, "..") && !strings.Contains(s, "--")
	}
	if !ok || !legal(org) || !legal(model) || strings.HasSuffix(model, ".git") {
		return Name{}, fmt.Errorf("%w: %q is not the name of a model on the hub: want ORG/NAME, "+
			"ORG/NAME@REVISION or ORG/NAME:FILE", pack.ErrUnsupported, text)
	}
	if !revision.MatchString(rev) || strings.Contains(rev, "..") || strings.Contains(rev, "//") {
		return Name{}, fmt.Errorf("%w: %q: %q is not a branch, tag or commit", pack.ErrUnsupported, text, rev)
	}
	if hasFile {
		if err := checkFile(text, file); err != nil {
			return Name{}, err
		}
	}
	return Name{org, model, rev, file}, nil
}

// ID returns ORG/NAME.
func (n Name) ID() string { return n.Org + "/" + n.Model }

// folder returns the name of the model's folder in the cache.
func (n Name) folder() string { return "models--" + n.Org + "--" + n.Model }

func (n Name) String() string {
	s := n.ID()
	if n.Revision != "main" {
		s += "@" + n.Revision
	}
	if n.File != "" {
		s += ":" + n.File
	}
	return s
}
