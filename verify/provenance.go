package verify

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/lowpack/lowpack/formats/provenance"
	"github.com/lowpack/lowpack/pack"
)

// checkProvenance compares the file with a statement about how it was made, if there is one. The digests of its sources
// are compared with those of the manifest; level source compares those with the checkpoint.
func (s *session) checkProvenance() error {
	if s.Provenance == nil {
		return nil
	}
	whole := s.file.Whole()
	return s.one(Digest, "provenance statement", "", filepath.Base(s.path), func() error {
		digest, err := s.sha256(whole)
		if err != nil {
			return err
		}
		if err := provenance.Check(s.Provenance, digest, s.file.Manifest()); err != nil {
			return fmt.Errorf("%w: %s", pack.ErrCorrupt, strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		return nil
	})
}
