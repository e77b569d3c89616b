package verify

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/lowpack/lowpack/formats/provenance"
	"github.com/lowpack/lowpack/pack"
)

// statement compares the file with a statement about how it was made, if there is one. The digests of its sources are
// compared with those of the manifest; level source compares those with the checkpoint.
func (s *session) statement() []item {
	if s.Provenance == nil {
		return nil
	}
	check := func(digest, _ string) error {
		if err := provenance.Check(s.Provenance, digest, s.file.Manifest()); err != nil {
			return fmt.Errorf("%w: %s", pack.ErrCorrupt, strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		return nil
	}
	whole := s.file.Whole()
	return []item{{group: "provenance statement", name: filepath.Base(s.path), size: whole.Size(),
		bytes: newDigest(whole, "", check)}}
}
