package signing

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/lowpack/lowpack/formats/provenance"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// JSON of a statement, with the fields in the order in which they are written.
type (
	statement struct {
		Type          string    `json:"_type"`
		Subject       []subject `json:"subject"`
		PredicateType string    `json:"predicateType"`
		Predicate     predicate `json:"predicate"`
	}
	subject struct {
		Name   string            `json:"name"`
		Digest map[string]string `json:"digest"`
	}
	predicate struct {
		Serialization serialization   `json:"serialization"`
		Resources     []resource      `json:"resources"`
		Provenance    json.RawMessage `json:"provenance,omitempty"`
	}
	serialization struct {
		Method        string   `json:"method"`
		HashType      string   `json:"hash_type"`
		AllowSymlinks bool     `json:"allow_symlinks"`
		IgnorePaths   []string `json:"ignore_paths,omitempty"`
	}
	resource struct {
		Name      string `json:"name"`
		Algorithm string `json:"algorithm"`
		Digest    string `json:"digest"`
	}
)

// Words of a statement: how the model became a list, and the digest of its elements.
const (
	byFiles  = "files"
	bySHA256 = "sha256"
)

// statement writes the statement that is signed.
func (m *Manifest) statement() ([]byte, error) {
	root := m.root()
	s := statement{
		Type:          provenance.StatementType,
		Subject:       []subject{{m.Name, map[string]string{bySHA256: hex.EncodeToString(root[:])}}},
		PredicateType: predicateType,
		Predicate: predicate{Serialization: serialization{Method: byFiles, HashType: bySHA256, IgnorePaths: m.Ignore},
			Provenance: m.Provenance},
	}
	for i := range m.Files {
		f := &m.Files[i]
		s.Predicate.Resources = append(s.Predicate.Resources,
			resource{f.Name, bySHA256, hex.EncodeToString(f.SHA256[:])})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// parseStatement reads a statement. As version 1.0 of the format asks, further fields of the predicate are ignored.
func parseStatement(payload []byte) (m *Manifest, err error) {
	top := parse(payload, "statement", &err).object()
	if err != nil {
		return nil, err
	}
	top.get("_type").is(provenance.StatementType)
	top.get("predicateType").is(predicateType)
	m = &Manifest{}
	p := top.get("predicate").object()
	m.Ignore = readSerialization(p.get("serialization").object("method", "hash_type", "allow_symlinks",
		"ignore_paths"))
	names := map[string]bool{}
	for _, r := range p.get("resources").list(1, maxFiles) {
		r.object("name", "algorithm", "digest").get("algorithm").is(bySHA256)
		f := File{r.get("name").text(), r.get("digest").sha256()}
		if err == nil && f.Name != whole {
			err = checkName(f.Name)
		}
		if names[f.Name] {
			r.fail(pack.ErrCorrupt, "%q is listed twice", f.Name)
		}
		names[f.Name] = true
		m.Files = append(m.Files, f)
	}
	if names[whole] && len(names) > 1 {
		p.fail(pack.ErrCorrupt, "the model is one file and a directory")
	}
	for _, s := range top.get("subject").list(1, 1) {
		m.Name = s.object().get("name").text()
		if s.get("digest").object().get(bySHA256).sha256() != m.root() {
			s.fail(pack.ErrCorrupt, "the digest is not that of the list of files")
		}
	}
	if err != nil {
		return nil, err
	}
	m.Provenance, err = rawProvenance(payload)
	return m, err
}

// readSerialization reads how the list was made, and returns what it leaves out.
func readSerialization(s node) (ignore []string) {
	s.get("method").is(byFiles)
	s.get("hash_type").is(bySHA256)
	if links := s.get("allow_symlinks"); links.Value == nil || links.Kind != jsonread.Bool {
		links.fail(pack.ErrCorrupt, "want a boolean")
	}
	paths := s.get("ignore_paths")
	if paths.Value == nil {
		return nil
	}
	for _, p := range paths.list(0, maxIgnored) {
		name := p.text()
		if err := checkName(name); err != nil {
			p.fail(pack.ErrUnsupported, "%v", err)
		}
		ignore = append(ignore, name)
	}
	return ignore
}

// rawProvenance returns the provenance statement as it stands in a statement that has been read.
func rawProvenance(payload []byte) ([]byte, error) {
	fields, err := jsonread.Fields(payload)
	if err == nil {
		fields, err = jsonread.Fields(fields["predicate"])
	}
	return fields["provenance"], err
}

// checkName refuses names that do not stay below a directory, or mean another file elsewhere.
func checkName(name string) error {
	if !fs.ValidPath(name) || name == whole || !utf8.ValidString(name) || strings.ContainsAny(name, "\\\x00") {
		return fmt.Errorf("%w: invalid name %.100q in a signature: must be relative, in UTF-8, with '/' between its "+
			"parts", pack.ErrUnsupported, name)
	}
	return nil
}
