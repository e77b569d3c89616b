// Package hub downloads models from the Hugging Face hub into the cache that the Python package huggingface_hub uses,
// so that a model is on the disk once.
//
// Layout of the cache (huggingface_hub 2.4.0, file_download.py): CACHE/models--ORG--NAME holds blobs/ETAG (the SHA-256
// of a large file, the git blob id of a small one), snapshots/COMMIT/PATH (relative links to blobs) and refs/REVISION
// (the commit that a branch or tag pointed to); CACHE/.locks/models--ORG--NAME/ETAG.lock is locked with flock while a
// blob is written. A blob may be a relative link to CACHE/blobs/XX/XETHASH, which several models share
// (_shared_blobs.py).
package hub

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// Name is a model on the hub: ORG/NAME, or ORG/NAME@REVISION, and behind a colon which of its GGUF files.
type Name struct {
	Org, Model string
	Revision   string // a branch, a tag or a commit; "main" unless the name says otherwise
	File       string // a GGUF file or the end of its name, such as Q4_0; "" = safetensors, or the only GGUF
}

var (
	part     = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9])?$`)
	revision = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,253}[A-Za-z0-9])?$`)
	commit   = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// ParseName reads ORG/NAME[@REVISION][:FILE]. The rules are those of huggingface_hub's validate_repo_id: letters,
// digits, '-', '_' and '.', not at the ends, neither ".." nor "--".
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
		return Name{}, fmt.Errorf("%w: %q is not the name of a model on the hub: want ORG/NAME, ORG/NAME@REVISION or "+
			"ORG/NAME:FILE", pack.ErrUnsupported, text)
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

// ID is ORG/NAME.
func (n Name) ID() string { return n.Org + "/" + n.Model }

// folder is the name of the model's folder in the cache.
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
