package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/plainerr"
	"github.com/lowpack/lowpack/pack"
)

// file is one file of a model at one commit.
type file struct {
	name string
	size int64
	blob string // name in the cache: hex SHA-256, or git blob id (SHA-1) of a small file
}

// listing is what the hub says about a model at a revision.
type listing struct {
	ID       string `json:"id"`
	Commit   string `json:"sha"`
	Siblings []struct {
		Name string `json:"rfilename"`
		Size int64  `json:"size"`
		Blob string `json:"blobId"`
		LFS  *struct {
			SHA256 string `json:"sha256"`
			Size   int64  `json:"size"`
		} `json:"lfs"`
	} `json:"siblings"`
}

// list asks the hub for the files of a model.
func (c *Client) list(ctx context.Context, n Name) (*listing, error) {
	var l listing
	err := c.getJSON(ctx, fmt.Sprintf("%s/api/models/%s/revision/%s?blobs=true", c.Endpoint, n.ID(), url.PathEscape(n.Revision)), &l)
	if err != nil {
		return nil, c.explain(n, err)
	}
	if !commit.MatchString(l.Commit) {
		return nil, fmt.Errorf("%w: %s: the hub names no commit", pack.ErrCorrupt, n)
	}
	return &l, nil
}

// explain says what a person can do about an answer of the hub.
func (c *Client) explain(n Name, err error) error {
	var s *statusError
	if !errors.As(err, &s) {
		return fmt.Errorf("%s: %s: %w", n, c.Endpoint, err)
	}
	page := c.Endpoint + "/" + n.ID()
	switch {
	case s.kind == "RevisionNotFound":
		return fmt.Errorf("%s: the model has no revision %q: %w", n, n.Revision, fs.ErrNotExist)
	case s.kind == "GatedRepo":
		return fmt.Errorf("%s: %w: the model is gated: accept its terms on %s, then set HF_TOKEN to a token that may read it", n, fs.ErrPermission, page)
	case s.kind == "RepoNotFound", s.code == http.StatusNotFound, s.code == http.StatusUnauthorized && s.kind == "":
		hint := "check the name; a private model needs HF_TOKEN"
		if c.Token != "" {
			hint = "check the name, and that the token may read it"
		}
		return fmt.Errorf("%s: no such model on %s: %w: %s", n, c.Endpoint, fs.ErrNotExist, hint)
	case s.code == http.StatusUnauthorized, s.code == http.StatusForbidden:
		return fmt.Errorf("%s: %w: %v: HF_TOKEN does not allow to read it", n, fs.ErrPermission, err)
	}
	return fmt.Errorf("%s: %s: %w", n, c.Endpoint, err)
}

// gguf chooses the files of a model in GGUF; nil where safetensors files are meant.
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

// files turns the answer into wanted files with checked names, sizes and digests.
func (l *listing) files(n Name, wanted func(name string) bool) ([]file, error) {
	var out []file
	for _, s := range l.Siblings {
		f := file{s.Name, s.Size, s.Blob}
		digest := 40
		if s.LFS != nil {
			f.size, f.blob, digest = s.LFS.Size, s.LFS.SHA256, 64
		}
		if !filepath.IsLocal(filepath.FromSlash(f.name)) || strings.ContainsAny(f.name, "\\\x00") || path.Clean(f.name) != f.name {
			return nil, fmt.Errorf("%w: %s: the hub lists a file %q, which is not a name inside the model", pack.ErrCorrupt, n, f.name)
		}
		if !wanted(f.name) {
			continue
		}
		if f.size < 0 || len(f.blob) != digest || strings.Trim(f.blob, "0123456789abcdef") != "" {
			return nil, fmt.Errorf("%w: %s: %s: the hub names no digest or size", pack.ErrCorrupt, n, f.name)
		}
		out = append(out, f)
	}
	return out, nil
}

// texts are the files beside the weights that a conversion can need.
var texts = []string{
	"config.json", "generation_config.json", "quantize_config.json", "quantization_config.json", "quant_config.json",
	"tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "merges.txt",
	"chat_template.jinja", "chat_template.json", "special_tokens_map.json", "added_tokens.json",
}

const indexName = "model.safetensors.index.json"

// wanted says whether a conversion can need a file: texts and weights at the top of the model.
func wanted(name string) bool {
	return name == indexName || slices.Contains(texts, name) || !strings.Contains(name, "/") && strings.HasSuffix(name, ".safetensors")
}

// weights chooses among the files those that the index names; without an index all wanted ones stay.
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

// check says why a model without safetensors files cannot be converted.
func (l *listing) check(n Name, files []file) error {
	if slices.ContainsFunc(files, func(f file) bool { return strings.HasSuffix(f.name, ".safetensors") }) {
		return nil
	}
	have := map[string]string{".bin": "pickle files (.bin)", ".pt": "pickle files (.pt)", ".pth": "pickle files (.pth)", ".onnx": "ONNX files"}
	for _, s := range l.Siblings {
		if what, ok := have[path.Ext(s.Name)]; ok {
			return fmt.Errorf("%w: %s has neither safetensors nor GGUF files, only %s such as %s", pack.ErrUnsupported, n, what, s.Name)
		}
	}
	return fmt.Errorf("%w: %s has no weights in safetensors or GGUF files", pack.ErrUnsupported, n)
}

// cached looks for a model in the cache, without the hub.
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

// cachedSnapshot looks for a snapshot. It counts only if its files are all there.
func (c *Client) cachedSnapshot(n Name) (string, error) {
	folder := filepath.Join(c.Cache, n.folder())
	id := n.Revision
	if !commit.MatchString(id) {
		text, err := os.ReadFile(filepath.Join(folder, "refs", filepath.FromSlash(n.Revision)))
		if err != nil {
			return "", fmt.Errorf("%s is not in the cache %s, and HF_HUB_OFFLINE forbids to ask the hub: %w", n, c.Cache, fs.ErrNotExist)
		}
		id = strings.TrimSpace(string(text))
	}
	dir := filepath.Join(folder, "snapshots", id)
	if !commit.MatchString(id) || !isDir(dir) {
		return "", fmt.Errorf("%s: the cache %s holds no snapshot of it, and HF_HUB_OFFLINE forbids to ask the hub: %w", n, c.Cache, fs.ErrNotExist)
	}
	return dir, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
