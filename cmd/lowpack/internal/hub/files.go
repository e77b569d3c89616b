package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/transfer"
	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/internal/plainerr"
	"github.com/lowpack/lowpack/pack"
)

// file is a file of a model at a commit.
type file struct {
	name string
	size int64
	blob string // name in the cache: hex SHA-256, or git blob id (SHA-1) of a small file
}

// listing is the hub's description of a model at a revision.
type listing struct {
	ID       string   `json:"id"`
	Commit   string   `json:"sha"`
	Siblings siblings `json:"siblings"`
}

// siblings are the files of a model.
type siblings []sibling

type sibling struct {
	Name string `json:"rfilename"`
	Size *int64 `json:"size"`
	Blob string `json:"blobId"`
	LFS  *struct {
		SHA256 string `json:"sha256"`
		Size   int64  `json:"size"`
	} `json:"lfs"`
}

// maxFiles limits the files of a listing, which take more memory than its text; models have a few thousand at most.
const maxFiles = 1 << 16

func (s *siblings) UnmarshalJSON(text []byte) (err error) {
	*s, err = transfer.ReadList[sibling](text, maxFiles,
		fmt.Errorf("%w: the hub lists more than %d files", pack.ErrLimit, maxFiles))
	return err
}

// list requests the files of a model.
func (c *Client) list(ctx context.Context, n Name) (*listing, error) {
	var l listing
	revision := url.PathEscape(n.Revision)
	err := c.getJSON(ctx, fmt.Sprintf("%s/api/models/%s/revision/%s?blobs=true", c.Endpoint, n.ID(), revision), &l)
	if err != nil {
		return nil, c.explain(n, err)
	}
	if !commit.MatchString(l.Commit) {
		return nil, fmt.Errorf("%w: %s: the listing has no commit", pack.ErrCorrupt, n)
	}
	if commit.MatchString(n.Revision) && l.Commit != n.Revision {
		return nil, fmt.Errorf("%w: %s: the listing is for another commit, %s", pack.ErrCorrupt, n, l.Commit)
	}
	for _, s := range l.Siblings {
		if !inside(s.Name) {
			const rule = "%w: %s: the hub lists a file %.80q, which is not a name inside the model"
			return nil, fmt.Errorf(rule, pack.ErrCorrupt, n, s.Name)
		}
	}
	return &l, nil
}

// maxName limits file names in bytes; errors quote some of them.
const maxName = 1024

// inside reports whether a name is valid for a file inside the model on this system.
func inside(name string) bool {
	return len(name) <= maxName && filepath.IsLocal(filepath.FromSlash(name)) && name != "." &&
		path.Clean(name) == name &&
		!strings.ContainsAny(name, "\\\x00")
}

// explain adds the remedy to an error of the hub.
func (c *Client) explain(n Name, err error) error {
	var s *transfer.StatusError
	if !errors.As(err, &s) {
		return fmt.Errorf("%s: %s: %w", n, c.shown(), err)
	}
	page := c.shown() + "/" + n.ID()
	switch {
	case s.Kind == "RevisionNotFound":
		return fmt.Errorf("%s: the model has no revision %q: %w", n, n.Revision, fs.ErrNotExist)
	case s.Kind == "GatedRepo":
		return fmt.Errorf("%s: %w: the model is gated: accept its terms on %s, then set HF_TOKEN to a token that may "+
			"read it",
			n, fs.ErrPermission, page)
	case s.Kind == "RepoNotFound", s.Code == http.StatusNotFound, s.Code == http.StatusUnauthorized && s.Kind == "":
		hint := "check the name; a private model needs HF_TOKEN"
		if c.Token != "" {
			hint = "check the name, and that the token may read it"
		}
		return fmt.Errorf("%s: no such model on %s: %w: %s", n, c.shown(), fs.ErrNotExist, hint)
	case s.Code == http.StatusUnauthorized, s.Code == http.StatusForbidden:
		return fmt.Errorf("%s: %w: %v: HF_TOKEN has no read access to the model", n, fs.ErrPermission, err)
	}
	return fmt.Errorf("%s: %s: %w", n, c.shown(), err)
}

// shown returns the hub's URL for messages, without a password.
func (c *Client) shown() string {
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return "the hub of HF_ENDPOINT"
	}
	return u.Redacted()
}

// gguf selects the GGUF files; nil = use safetensors.
func (l *listing) gguf(n Name) ([]string, error) {
	var names []string
	safetensors := false
	for _, s := range l.Siblings {
		names = append(names, s.Name)
		safetensors = safetensors || wanted(s.Name) && strings.HasSuffix(s.Name, ".safetensors")
	}
	if n.File == "" && safetensors {
		return nil, nil
	}
	return n.chooseGGUF(names)
}

// files converts the listing to the wanted files. It checks that their names and sizes can coexist, and that they have
// digests.
func (l *listing) files(n Name, wanted func(name string) bool) ([]file, error) {
	var out []file
	var seen unique
	for _, s := range l.Siblings {
		if !wanted(s.Name) {
			continue
		}
		f, err := s.file()
		if err == nil {
			err = seen.add(f)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %q: %w", pack.ErrCorrupt, n, s.Name, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// file checks name, size and digest. All file systems must accept the name.
func (s sibling) file() (file, error) {
	f := file{s.Name, 0, s.Blob}
	digest := hex.EncodedLen(sha1.Size)
	if s.Size != nil {
		f.size = *s.Size
	}
	if s.LFS != nil {
		if s.Size != nil && f.size != s.LFS.Size {
			return f, fmt.Errorf("the hub lists two sizes, %d and %d", f.size, s.LFS.Size)
		}
		f.size, f.blob, digest = s.LFS.Size, s.LFS.SHA256, hex.EncodedLen(sha256.Size)
	}
	switch {
	case strings.Contains(f.name, ":") || strings.ContainsFunc(f.name, unicode.IsControl):
		return f, errors.New("the name is not valid on every system")
	case f.size < 0, s.LFS == nil && s.Size == nil:
		return f, errors.New("the hub lists no size")
	case len(f.blob) != digest, strings.Trim(f.blob, "0123456789abcdef") != "":
		return f, errors.New("the hub lists no digest")
	}
	return f, nil
}

// unique detects files that cannot coexist in the cache.
type unique struct {
	names map[string]string // by case-folded, normalized name: Windows and macOS treat some names as equal
	sizes map[string]int64  // of blobs
	total int64
}

func (u *unique) add(f file) error {
	if u.names == nil {
		u.names, u.sizes = map[string]string{}, map[string]int64{}
	}
	folded := norm.NFC.String(cases.Fold().String(norm.NFD.String(f.name)))
	if other, ok := u.names[folded]; ok {
		return fmt.Errorf("the hub lists %q too, which is the same name on some systems", other)
	}
	if size, ok := u.sizes[f.blob]; ok && size != f.size {
		return fmt.Errorf("the hub lists the sizes %d and %d for one digest", size, f.size)
	}
	if u.total > math.MaxInt64-f.size {
		return errors.New("the sum of the listed sizes exceeds 63 bits")
	}
	u.names[folded], u.sizes[f.blob], u.total = f.name, f.size, u.total+f.size
	return nil
}

const indexName = "model.safetensors.index.json"

// wanted reports whether a conversion may need a file: those of formats/modelfile, and weights at the top level of the
// model.
func wanted(name string) bool {
	return name == indexName || modelfile.Limit(name) > 0 ||
		!strings.Contains(name, "/") && strings.HasSuffix(name, ".safetensors")
}

// weights drops safetensors files that the index does not name.
func weights(files []file, index []byte) ([]file, error) {
	var parsed struct {
		Map map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(index, &parsed); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", pack.ErrCorrupt, indexName, plainerr.JSON(err))
	}
	named := map[string]bool{}
	for _, shard := range parsed.Map {
		named[shard] = true
	}
	var out []file
	for _, f := range files {
		if !strings.HasSuffix(f.name, ".safetensors") || named[f.name] {
			out = append(out, f)
			delete(named, f.name)
		}
	}
	for shard := range named {
		return nil, fmt.Errorf("%w: %s names %q, which the model does not have", pack.ErrCorrupt, indexName, shard)
	}
	return out, nil
}

// check returns why a model without safetensors files cannot be converted.
func (l *listing) check(n Name, files []file) error {
	if slices.ContainsFunc(files, func(f file) bool { return strings.HasSuffix(f.name, ".safetensors") }) {
		return nil
	}
	have := map[string]string{
		".bin":  "pickle files (.bin)",
		".pt":   "pickle files (.pt)",
		".pth":  "pickle files (.pth)",
		".onnx": "ONNX files",
	}
	for _, s := range l.Siblings {
		if what, ok := have[path.Ext(s.Name)]; ok {
			return fmt.Errorf("%w: %s has neither safetensors nor GGUF files, only %s such as %s",
				pack.ErrUnsupported, n, what, s.Name)
		}
	}
	return fmt.Errorf("%w: %s has no weights in safetensors or GGUF files", pack.ErrUnsupported, n)
}

// cached returns a model from the cache, without the hub.
func (c *Client) cached(n Name) (*Result, error) {
	dir, err := c.cachedSnapshot(n)
	if err != nil {
		return nil, err
	}
	r := &Result{Path: dir, Commit: filepath.Base(dir)}
	names, err := snapshotFiles(dir)
	if err != nil || n.File == "" && slices.Contains(names, "config.json") {
		return r, err
	}
	parts, err := n.chooseGGUF(names)
	if err != nil {
		return nil, fmt.Errorf("in the cache %s: %w", c.Cache, err)
	}
	r.Path = checkpoint(dir, parts)
	return r, nil
}

// cachedSnapshot returns the snapshot of a model in the cache.
func (c *Client) cachedSnapshot(n Name) (string, error) {
	folder := filepath.Join(c.Cache, n.folder())
	id := n.Revision
	if !commit.MatchString(id) {
		text, err := os.ReadFile(filepath.Join(folder, "refs", filepath.FromSlash(n.Revision)))
		if err != nil {
			return "", fmt.Errorf("%s is not in the cache %s, and HF_HUB_OFFLINE forbids to ask the hub: %w",
				n, c.Cache, fs.ErrNotExist)
		}
		id = strings.TrimSpace(string(text))
	}
	dir := filepath.Join(folder, "snapshots", id)
	if !commit.MatchString(id) || !isDir(dir) {
		return "", fmt.Errorf("%s: the cache %s holds no snapshot of it, and HF_HUB_OFFLINE forbids to ask the hub: %w",
			n, c.Cache, fs.ErrNotExist)
	}
	return dir, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
