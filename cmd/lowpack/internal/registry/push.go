package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// Progress reports the bytes done of a phase, the total, and what is at hand.
type Progress func(done, total int64, what string)

// Pushed is the result of a Push.
type Pushed struct {
	Name   Name   // by digest
	SHA256 string // of the packed file
	Bytes  int64  // of all blobs
	Sent   int64  // of those that the registry did not have
}

// parallel is the number of blobs that are sent at once: enough to hide the latency of small ones.
const parallel = 4

// blob is what is to be sent.
type blob struct {
	ocispec.Descriptor
	open func() io.Reader
}

// Push sends a packed file, with its signature if it is not empty, and gives it the tag. Blobs that the repository has
// are not sent again, so that the next Push continues an interrupted one.
//
// Errors: fs.ErrPermission without access, pack.ErrLimit for a file with too many parts. All errors name the artifact
// or the file.
func (c *Client) Push(ctx context.Context, n Name, model string, signature []byte, progress Progress) (*Pushed, error) {
	f, err := packed.Open(model)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := &push{repository: c.repository(n), file: f, title: filepath.Base(model), progress: progress}
	if err := p.list(ctx, signature); err != nil {
		return nil, filerr.Named(model, err)
	}
	if err := p.all(ctx); err != nil {
		return nil, n.explain(err)
	}
	tagged := p.manifest.Descriptor
	if err := p.tag(ctx); err != nil {
		return nil, n.explain(err)
	}
	n.Tag, n.Digest = "", string(tagged.Digest)
	return &Pushed{Name: n, SHA256: p.sum, Bytes: p.total, Sent: p.sent.Load()}, nil
}

// push is a Push in progress.
type push struct {
	*repository
	file     *packed.File
	title    string
	progress Progress

	sum      string // of the packed file
	blobs    []blob // each once
	manifest blob
	total    int64 // bytes of the blobs
	done     atomic.Int64
	sent     atomic.Int64
}

// list computes the digests of all parts, and the manifest.
func (p *push) list(ctx context.Context, signature []byte) error {
	parts, err := cut(p.file, p.title, p.sizes)
	if err != nil {
		return err
	}
	if name := parts[0].title; !isPlainName(name) {
		return fmt.Errorf("%w: its first layer would have the name %q, which not every system has; rename the file",
			pack.ErrUnsupported, name)
	}
	m := manifest{SchemaVersion: 2, MediaType: imageType, ArtifactType: artifactType}
	whole := sha256.New()
	for _, part := range parts {
		bytesOf := func() io.Reader { return io.NewSectionReader(p.file.Whole(), part.begin, part.size) }
		one := sha256.New()
		if _, err := io.Copy(io.MultiWriter(one, whole), &reading{ctx, bytesOf()}); err != nil {
			return err
		}
		p.progress(part.begin+part.size, p.file.Size(), "digest")
		d := ocispec.Descriptor{MediaType: part.mediaType, Size: part.size,
			Digest: digest.NewDigest(digest.SHA256, one)}
		m.Layers = append(m.Layers, p.layer(d, part.title, bytesOf))
	}
	if len(signature) > 0 {
		d := ocispec.Descriptor{MediaType: documentType, Size: int64(len(signature)),
			Digest: digest.FromBytes(signature)}
		m.Layers = append(m.Layers, p.layer(d, p.title+SignatureSuffix,
			func() io.Reader { return bytes.NewReader(signature) }))
	}
	p.sum = hex.EncodeToString(whole.Sum(nil))
	m.Annotations = map[string]string{sumKey: p.sum}
	if m.Config, err = p.config(m.Layers); err != nil {
		return err
	}
	p.blobs = distinct(p.blobs, func(b blob) digest.Digest { return b.Digest })
	for _, b := range p.blobs {
		p.total += b.Size
	}
	p.manifest, err = document(imageType, m)
	if n := p.manifest.Size; err == nil && (n > maxManifest || len(m.Layers) > maxLayers) {
		err = fmt.Errorf("%w: its manifest would have %d bytes and %d layers; registries take %d, and lowpack %d",
			pack.ErrLimit, n, len(m.Layers), maxManifest, maxLayers)
	}
	return err
}

// layer adds a blob, and returns its descriptor with a title.
func (p *push) layer(d ocispec.Descriptor, title string, open func() io.Reader) ocispec.Descriptor {
	p.blobs = append(p.blobs, blob{d, open})
	d.Annotations = map[string]string{pathKey: title, titleKey: title}
	return d
}

// distinct returns the elements without those whose key an earlier one has.
func distinct[T any, K comparable](list []T, key func(T) K) []T {
	seen := make(map[K]bool, len(list))
	return slices.DeleteFunc(list, func(e T) bool {
		k := key(e)
		again := seen[k]
		seen[k] = true
		return again
	})
}

// document is a blob in JSON.
func document(mediaType string, what any) (blob, error) {
	text, err := json.Marshal(what)
	d := ocispec.Descriptor{MediaType: mediaType, Size: int64(len(text)), Digest: digest.FromBytes(text)}
	return blob{d, func() io.Reader { return bytes.NewReader(text) }}, err
}

// config adds the configuration of ModelPack. It holds nothing that depends on the time or the machine.
func (p *push) config(list layers) (ocispec.Descriptor, error) {
	var c struct {
		Descriptor struct {
			Name   string `json:"name"`
			Family string `json:"family,omitempty"`
		} `json:"descriptor"`
		Config struct {
			Format string `json:"format"`
		} `json:"config"`
		ModelFS struct {
			Type  string          `json:"type"`
			Diffs []digest.Digest `json:"diffIds"`
		} `json:"modelfs"`
	}
	c.Descriptor.Name, c.Descriptor.Family = p.title, p.file.Manifest().Family
	c.Config.Format, c.ModelFS.Type = "safetensors", "layers"
	for _, l := range list {
		c.ModelFS.Diffs = append(c.ModelFS.Diffs, l.Digest)
	}
	b, err := document(configType, c)
	p.blobs = append(p.blobs, b)
	return b.Descriptor, err
}

// all sends what the repository lacks.
func (p *push) all(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, b := range p.blobs {
		g.Go(func() error {
			if err := p.one(ctx, b); err != nil {
				return fmt.Errorf("blob %s: %w", b.Digest, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// one sends a blob unless the repository has it. A try that fails sends all of it again, which is not progress.
func (p *push) one(ctx context.Context, b blob) error {
	return p.Retry(ctx, func() (int64, error) {
		ctx, alive, stop := p.Watch(ctx)
		had, err := p.remote.Blobs().Exists(ctx, b.Descriptor)
		alive()
		if err != nil || had {
			if had {
				p.moved(b.Size)
			}
			return 0, stop(plain(err))
		}
		body := &sending{Reader: b.open(), moved: func(n int64) { alive(); p.moved(n) }}
		if err = p.remote.Blobs().Push(ctx, b.Descriptor, body); err != nil {
			p.moved(-body.n.Load())
			return 0, stop(plain(err))
		}
		p.sent.Add(b.Size)
		return 0, stop(nil)
	})
}

func (p *push) moved(n int64) { p.progress(p.done.Add(n), p.total, "send") }

// tag sends the manifest, after all that it names.
func (p *push) tag(ctx context.Context) error {
	err := p.Retry(ctx, func() (int64, error) {
		ctx, _, stop := p.Watch(ctx)
		m := p.manifest
		return 0, stop(plain(p.remote.Manifests().PushReference(ctx, m.Descriptor, m.open(), p.name.Tag)))
	})
	if err != nil {
		return fmt.Errorf("manifest %s: %w", p.manifest.Digest, err)
	}
	return nil
}

// sending counts the bytes that are sent.
type sending struct {
	io.Reader
	moved func(int64)
	n     atomic.Int64
}

func (s *sending) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.n.Add(int64(n))
	s.moved(int64(n))
	return n, err
}

// reading is a reader that a context ends.
type reading struct {
	ctx context.Context
	io.Reader
}

func (r *reading) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
