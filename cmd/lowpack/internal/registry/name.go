// Package registry moves packed files to and from OCI registries, as artifacts of the CNCF ModelPack specification.
//
// docs/REGISTRY.md defines the manifest: the layers of weights, in order, are the packed file, cut where equal parts of
// two files begin and end, so that a registry holds, and a client sends, each of them once.
package registry

import (
	"fmt"
	"path"
	"strings"

	orasname "oras.land/oras-go/v2/registry"

	"github.com/lowpack/lowpack/pack"
)

// scheme begins the name of an artifact.
const scheme = "oci://"

// Name is an artifact in a registry: oci://HOST[:PORT]/REPOSITORY[:TAG] or …@DIGEST.
type Name struct {
	Host       string // with its port, if there is one
	Repository string
	Tag        string // "" with a digest
	Digest     string // sha256:HEX of the manifest; "" with a tag
}

// Is reports whether a text is meant to name an artifact.
func Is(text string) bool { return strings.HasPrefix(text, scheme) }

// ParseName parses the name of an artifact; the default tag is latest.
func ParseName(text string) (Name, error) {
	refuse := func(why string) (Name, error) {
		return Name{}, fmt.Errorf("%w: %.300q is not the name of an artifact: %s; want %sHOST/NAME:TAG or "+
			"%[4]sHOST/NAME@sha256:DIGEST", pack.ErrUnsupported, text, why, scheme)
	}
	rest, ok := strings.CutPrefix(text, scheme)
	if !ok {
		return refuse("it does not begin with " + scheme)
	}
	ref, err := orasname.ParseReference(rest)
	switch _, whole, _ := strings.Cut(rest, "/"); {
	case err != nil:
		return refuse(err.Error())
	case strings.HasSuffix(rest, ":"), strings.HasSuffix(rest, "@"):
		return refuse("the tag or digest is empty")
	case strings.Contains(whole, "@") && strings.Contains(strings.SplitN(whole, "@", 2)[0], ":"):
		return refuse("it has both a tag and a digest")
	}
	n := Name{Host: ref.Registry, Repository: ref.Repository, Tag: ref.ReferenceOrDefault()}
	if strings.Contains(n.Tag, ":") {
		n.Tag, n.Digest = "", n.Tag
	}
	if n.Digest != "" && !digestPattern.MatchString(n.Digest) {
		return refuse("its digest is not a SHA-256")
	}
	return n, nil
}

// Base returns the last element of the repository.
func (n Name) Base() string { return path.Base(n.Repository) }

// ID returns HOST/REPOSITORY.
func (n Name) ID() string { return n.Host + "/" + n.Repository }

func (n Name) String() string {
	if n.Digest != "" {
		return scheme + n.ID() + "@" + n.Digest
	}
	return scheme + n.ID() + ":" + n.Tag
}

// reference is what names the manifest in the registry's API.
func (n Name) reference() string {
	if n.Digest != "" {
		return n.Digest
	}
	return n.Tag
}
