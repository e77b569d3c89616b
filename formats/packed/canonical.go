package packed

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/lowpack/lowpack/internal/plainerr"
	"github.com/lowpack/lowpack/pack"
)

// Canonical is the one JSON form of a manifest (FORMAT F11).
func (m *Manifest) Canonical() ([]byte, error) { return canonical(m) }

func canonical(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// ParseManifest accepts the canonical form only: an unknown field, another order of fields or an extra space is an
// error, so that equal manifests have equal bytes.
func ParseManifest(text []byte) (*Manifest, error) {
	var version struct{ Format int }
	if err := json.Unmarshal(text, &version); err != nil {
		return nil, fmt.Errorf("%w: manifest: %v (F11)", pack.ErrCorrupt, plainerr.JSON(err))
	}
	if version.Format == 1 {
		return nil, fmt.Errorf("%w: the file was written by lowpack 0.1, in format version 1, and this program reads "+
			"version %d: convert the checkpoint again (F11)", pack.ErrUnsupported, FormatVersion)
	}
	if version.Format != FormatVersion {
		remedy := "a newer lowpack reads it"
		if version.Format < FormatVersion {
			remedy = "convert the checkpoint again"
		}
		return nil, fmt.Errorf("%w: the file has format version %d, this program reads version %d: %s (F11)",
			pack.ErrUnsupported, version.Format, FormatVersion, remedy)
	}
	var m Manifest
	if err := decodeStrictly(text, &m); err != nil {
		return nil, err
	}
	again, err := m.Canonical()
	if err != nil {
		return nil, fmt.Errorf("%w: manifest: %v (F11)", pack.ErrCorrupt, err)
	}
	if !bytes.Equal(again, text) {
		return nil, fmt.Errorf("%w: the manifest is not in canonical form (F11)", pack.ErrCorrupt)
	}
	return &m, nil
}
