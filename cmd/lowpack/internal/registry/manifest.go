package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"unicode"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/transfer"
	"github.com/lowpack/lowpack/internal/plainerr"
	"github.com/lowpack/lowpack/pack"
)

// Types of the CNCF ModelPack specification 0.0.7, docs/spec.md.
const (
	imageType    = ocispec.MediaTypeImageManifest
	indexType    = ocispec.MediaTypeImageIndex
	artifactType = "application/vnd.cncf.model.manifest.v1+json"
	configType   = "application/vnd.cncf.model.config.v1+json"
	weightType   = "application/vnd.cncf.model.weight.v1.raw"        // bytes of the packed file
	embeddedType = "application/vnd.cncf.model.weight.config.v1.raw" // the same, which are a file of the checkpoint
	documentType = "application/vnd.cncf.model.doc.v1.raw"           // the signature
)

// Annotations: paths of layers, for ModelPack and for ORAS, and the SHA-256 of the packed file in the manifest.
const (
	pathKey  = "org.cncf.model.filepath"
	titleKey = ocispec.AnnotationTitle
	sumKey   = "io.github.lowpack.sha256"
)

// SignatureSuffix ends the title of the layer that is a signature.
const SignatureSuffix = ".sig"

// Limits of a manifest, and of a signature, in bytes.
const (
	maxManifest  = 4 << 20 // registries have the same one, by OCI distribution 1.1
	maxLayers    = 8192
	MaxSignature = 16 << 20
)

var (
	digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	sumPattern    = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// manifest is an OCI image manifest.
type manifest struct {
	SchemaVersion int                `json:"schemaVersion"`
	MediaType     string             `json:"mediaType"`
	ArtifactType  string             `json:"artifactType"`
	Config        ocispec.Descriptor `json:"config"`
	Layers        layers             `json:"layers"`
	Annotations   map[string]string  `json:"annotations,omitempty"`
}

type layers []ocispec.Descriptor

func (l *layers) UnmarshalJSON(text []byte) (err error) {
	*l, err = transfer.ReadList[ocispec.Descriptor](text, maxLayers,
		fmt.Errorf("%w: the manifest has more than %d layers", pack.ErrLimit, maxLayers))
	return err
}

// content is what the layers of a manifest are.
type content struct {
	parts     []ocispec.Descriptor // of the packed file, in order
	signature *ocispec.Descriptor  // nil: none
	sum       string               // hex SHA-256 of the packed file
	size      int64                // of the packed file
}

// readManifest reads the manifest of a packed file, and refuses what it does not know.
func readManifest(text []byte) (*content, error) {
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		if !errors.Is(err, pack.ErrLimit) {
			err = fmt.Errorf("%w: the manifest is not one: %v", pack.ErrCorrupt, plainerr.JSON(err))
		}
		return nil, err
	}
	switch {
	case m.SchemaVersion != 2 || m.MediaType != imageType:
		return nil, foreign("the manifest is of type %.80q and schema version %d, not %s and 2", m.MediaType,
			m.SchemaVersion, imageType)
	case m.ArtifactType != artifactType:
		return nil, foreign("the artifact is of type %.80q, not %s", m.ArtifactType, artifactType)
	case m.Config.MediaType != configType:
		return nil, foreign("the configuration is of type %.80q, not %s", m.Config.MediaType, configType)
	case !sumPattern.MatchString(m.Annotations[sumKey]):
		return nil, foreign("the annotation %s is not a SHA-256: lowpack push did not write this manifest", sumKey)
	}
	c := &content{sum: m.Annotations[sumKey]}
	for i := range m.Layers {
		if err := c.add(&m.Layers[i]); err != nil {
			return nil, fmt.Errorf("layer %d of the manifest: %w", i, err)
		}
	}
	if c.size == 0 {
		return nil, fmt.Errorf("%w: the manifest has no layers of weights", pack.ErrCorrupt)
	}
	return c, nil
}

func foreign(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{pack.ErrUnsupported}, args...)...)
}

// add checks a layer and adds it.
func (c *content) add(l *ocispec.Descriptor) error {
	path := l.Annotations[pathKey]
	switch {
	case !digestPattern.MatchString(string(l.Digest)):
		return fmt.Errorf("%w: the digest %.80q is not a SHA-256", pack.ErrCorrupt, string(l.Digest))
	case l.Size <= 0 || l.Size > math.MaxInt64-MaxSignature-c.size: // the signature may come before
		return fmt.Errorf("%w: it has %d bytes, which is not a size", pack.ErrCorrupt, l.Size)
	case len(l.URLs) > 0:
		return fmt.Errorf("%w: its bytes are elsewhere, at %.80q", pack.ErrUnsupported, l.URLs[0])
	case !isPlainName(path) || l.Annotations[titleKey] != path:
		return fmt.Errorf("%w: the annotations %s=%.80q and %s=%.80q are not one name of a file", pack.ErrCorrupt,
			pathKey, path, titleKey, l.Annotations[titleKey])
	}
	switch {
	case l.MediaType == weightType || l.MediaType == embeddedType:
		c.parts, c.size = append(c.parts, *l), c.size+l.Size
		return nil
	case l.MediaType != documentType || !strings.HasSuffix(path, SignatureSuffix):
		return fmt.Errorf("%w: %s of type %.80q is neither a part of a packed file nor its signature",
			pack.ErrUnsupported, path, l.MediaType)
	case c.signature != nil:
		return fmt.Errorf("%w: %s is a second signature", pack.ErrUnsupported, path)
	case l.Size > MaxSignature:
		return fmt.Errorf("%w: the signature has %d bytes, more than %d", pack.ErrLimit, l.Size, MaxSignature)
	}
	c.signature = l
	return nil
}

// isPlainName reports whether a name is that of a file, and of nothing elsewhere, on every system. lowpack gives files
// the names that the user chose; other tools take these.
func isPlainName(name string) bool {
	return name != "" && len(name) <= 255 && !strings.HasPrefix(name, ".") && !strings.ContainsAny(name, `/\:`) &&
		!strings.ContainsFunc(name, unicode.IsControl)
}
