package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/transfer"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/pack"
)

// Artifact is a packed file in a registry.
type Artifact struct {
	Name  Name // by digest
	asked Name // as the user named it
	*content
}

// Signed reports whether the packed file has a signature.
func (a *Artifact) Signed() bool { return a.signature != nil }

// Size returns the bytes of the packed file.
func (a *Artifact) Size() int64 { return a.size }

// Resolve reads and checks a manifest.
//
// Errors: fs.ErrNotExist for an unknown artifact, fs.ErrPermission without access, pack.ErrUnsupported for an artifact
// that is not a packed file, pack.ErrCorrupt for wrong bytes, pack.ErrLimit. All errors name the artifact.
func (c *Client) Resolve(ctx context.Context, n Name) (*Artifact, error) {
	text, err := c.repository(n).manifest(ctx)
	if err != nil {
		return nil, n.explain(err)
	}
	list, err := readManifest(text)
	if err != nil {
		return nil, n.explain(err)
	}
	pinned := n
	pinned.Tag, pinned.Digest = "", fmt.Sprintf("sha256:%x", sha256.Sum256(text))
	return &Artifact{pinned, n, list}, nil
}

// manifest downloads the manifest and checks its digest.
func (r *repository) manifest(ctx context.Context) (text []byte, err error) {
	err = r.Retry(ctx, func() (int64, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*r.Stall)
		defer cancel()
		resp, err := r.get(ctx, manifests, r.name.reference(), 0)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return 0, transfer.StatusOf(resp, reason(resp))
		}
		if text, err = io.ReadAll(io.LimitReader(resp.Body, maxManifest+1)); err != nil {
			return 0, fmt.Errorf("%w: %w", transfer.ErrBroken, transfer.Plain(err))
		}
		return 0, r.checkManifest(text, resp.Header.Get("Docker-Content-Digest"))
	})
	return text, err
}

// checkManifest compares a manifest with the digest by which it was asked for, and with that of the registry.
func (r *repository) checkManifest(text []byte, said string) error {
	if len(text) > maxManifest {
		return fmt.Errorf("%w: the manifest has more than %d bytes", pack.ErrLimit, maxManifest)
	}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(text))
	for _, want := range []string{r.name.Digest, said} {
		if strings.HasPrefix(want, "sha256:") && want != digest {
			return fmt.Errorf("%w: the digest of the manifest is %s, not %.80s%s", pack.ErrCorrupt, digest, want,
				suspects)
		}
	}
	return nil
}

// Pull downloads a packed file to target, and its signature, if it has one, next to it. The next Pull continues an
// interrupted one. Nothing has its name before all digests are checked. Errors name the artifact and the blob.
func (c *Client) Pull(ctx context.Context, a *Artifact, target string, progress Progress) error {
	beside := target + SignatureSuffix
	if err := a.checkBeside(beside); err != nil {
		return err
	}
	out, err := atomicfile.Resume(atomicfile.OS, target)
	if err != nil {
		if errors.Is(err, atomicfile.ErrForeign) {
			err = fmt.Errorf("%w: %w", pack.ErrUnsupported, err)
		}
		return err
	}
	defer out.Abort() // keeps the bytes
	p := &pull{repository: c.repository(a.Name), content: a.content, out: out, total: a.size, progress: progress}
	if a.Signed() {
		p.total += a.signature.Size
	}
	if err := p.space(target); err != nil {
		return err
	}
	signature, err := p.all(ctx)
	if err != nil {
		return a.asked.explain(err)
	}
	if signature != nil {
		if err := write(beside, signature); err != nil {
			return err
		}
	}
	return out.Commit()
}

// checkBeside checks the place of the signature. One that is there would be taken for that of an artifact without any.
func (a *Artifact) checkBeside(path string) error {
	if a.Signed() {
		return atomicfile.Check(path)
	}
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%w: %s has no signature, and %s would be taken for it: move that file away, or pull to "+
			"another name", pack.ErrUnsupported, a.Name, path)
	}
	return nil
}

// pull is a Pull in progress. The bytes of all parts follow one another in out, so that its length says how far it is.
type pull struct {
	*repository
	*content
	out      *atomicfile.File
	total    int64
	done     int64
	progress Progress
}

// space returns an error if the disk is too small.
func (p *pull) space(target string) error {
	info, err := p.out.Stat()
	if err != nil {
		return err
	}
	return atomicfile.CheckSpace(target, p.total-min(p.total, info.Size()))
}

// all downloads the packed file, and returns its signature.
func (p *pull) all(ctx context.Context) (signature []byte, err error) {
	start := int64(0)
	for _, d := range p.parts {
		if err := p.blob(ctx, d, start); err != nil {
			return nil, err
		}
		start += d.Size
	}
	if s := p.signature; s != nil { // for a moment behind the file, to be continued as well
		if err := p.blob(ctx, *s, start); err != nil {
			return nil, err
		}
		signature = make([]byte, s.Size)
		if _, err := p.out.ReadAt(signature, start); err != nil {
			return nil, err
		}
	}
	if err := p.out.Truncate(start); err != nil {
		return nil, err
	}
	return signature, p.whole(ctx)
}

// blob downloads a blob to an offset. Bytes that were there before may be those of another artifact: if they turn out
// to be wrong, it is downloaded once more.
func (p *pull) blob(ctx context.Context, d ocispec.Descriptor, start int64) error {
	one := &transfer.Download{Patience: p.Patience, Out: p.out, Start: start, Size: d.Size, Hash: sha256.New,
		Server: transfer.Server{List: "descriptor", Hint: suspects, Kind: reason},
		Moved: func(n int64) {
			p.done += n
			p.progress(p.done, p.total, d.Annotations[pathKey])
		},
		Get: func(ctx context.Context, from int64) (*http.Response, error) {
			return p.get(ctx, blobs, string(d.Digest), from)
		}}
	had, err := one.Open()
	for err == nil {
		if err = one.Run(ctx); err != nil {
			break
		}
		got := "sha256:" + hex.EncodeToString(one.Sum())
		if got == string(d.Digest) {
			return nil
		}
		if err = one.Restart(); err == nil && had == 0 {
			err = fmt.Errorf("%w: the digest of what the registry sends is %s; it was dropped, try again",
				pack.ErrCorrupt, got)
		}
		had = 0
	}
	return fmt.Errorf("blob %s (%s): %w", d.Digest, d.Annotations[pathKey], err)
}

// whole compares the file with the digest of what was pushed: the parts could be in another order.
func (p *pull) whole(ctx context.Context) error {
	all := sha256.New()
	if _, err := io.Copy(all, &reading{ctx, io.NewSectionReader(p.out, 0, p.size)}); err != nil {
		return err
	}
	if got := hex.EncodeToString(all.Sum(nil)); got != p.sum {
		return errors.Join(p.out.Truncate(0), fmt.Errorf("%w: the layers together have the SHA-256 %s, but the "+
			"annotation %s says %s; push the file again", pack.ErrCorrupt, got, sumKey, p.sum))
	}
	return nil
}

// write writes a small file that appears whole or not at all.
func write(target string, text []byte) error {
	f, err := atomicfile.Create(atomicfile.OS, target)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.WriteAt(text, 0); err != nil {
		return atomicfile.Failed(fmt.Errorf("write %s: %w", target, err))
	}
	return f.Commit()
}
