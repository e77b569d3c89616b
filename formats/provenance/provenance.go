// Package provenance writes and checks statements on how a packed file was made: unsigned in-toto statements
// (https://in-toto.io/Statement/v1) with the SLSA provenance predicate (https://slsa.dev/provenance/v1), to be signed
// by whoever runs the conversion. docs/CI.md describes the fields.
package provenance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// Types and ids in a statement.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://slsa.dev/provenance/v1"
	BuildType     = "https://github.com/lowpack/lowpack/blob/main/docs/CI.md#provenance"
	BuilderID     = "https://github.com/lowpack/lowpack"
)

// JSON of a statement, with the fields in the order in which they are written.
type (
	statement struct {
		Type          string     `json:"_type"`
		Subject       []resource `json:"subject"`
		PredicateType string     `json:"predicateType"`
		Predicate     predicate  `json:"predicate"`
	}
	resource struct {
		Name   string `json:"name"`
		Digest digest `json:"digest"`
	}
	digest struct {
		SHA256 string `json:"sha256"`
	}
	predicate struct {
		BuildDefinition buildDefinition `json:"buildDefinition"`
		RunDetails      runDetails      `json:"runDetails"`
	}
	buildDefinition struct {
		BuildType            string     `json:"buildType"`
		ExternalParameters   parameters `json:"externalParameters"`
		ResolvedDependencies []resource `json:"resolvedDependencies"`
	}
	parameters struct {
		Recipe packed.Recipe `json:"recipe"`
	}
	runDetails struct {
		Builder builder `json:"builder"`
	}
	builder struct {
		ID      string            `json:"id"`
		Version map[string]string `json:"version"`
	}
)

// Statement returns the statement on a packed file, given its base name, the SHA-256 of the whole file in hex, and its
// manifest, which provides sources, recipe and version. Equal conversions give equal bytes: the statement does not say
// when, where or by whom the file was made.
func Statement(name, sha256 string, m *packed.Manifest) ([]byte, error) {
	if err := checkDigest(sha256); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	tool, version, ok := strings.Cut(m.Tool, " ")
	if !ok {
		return nil, fmt.Errorf("%w: tool is %q in the manifest, want a program and its version",
			pack.ErrCorrupt, m.Tool)
	}
	s := statement{
		Type:          StatementType,
		Subject:       []resource{{name, digest{sha256}}},
		PredicateType: PredicateType,
		Predicate: predicate{
			BuildDefinition: buildDefinition{BuildType: BuildType, ExternalParameters: parameters{m.Recipe},
				ResolvedDependencies: []resource{}},
			RunDetails: runDetails{builder{BuilderID, map[string]string{tool: version}}},
		},
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	for _, source := range m.Sources {
		if err := checkName(source.Name); err != nil {
			return nil, err
		}
		if err := checkDigest(source.SHA256); err != nil {
			return nil, fmt.Errorf("%s: %w", source.Name, err)
		}
		d := &s.Predicate.BuildDefinition
		d.ResolvedDependencies = append(d.ResolvedDependencies, resource{source.Name, digest{source.SHA256}})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// checkName enforces the rules of the OpenSSF model signing format on a file name: relative, with '/' between its
// parts, and without empty, "." or ".." parts.
func checkName(name string) error {
	bad := !utf8.ValidString(name) || strings.ContainsAny(name, "\\\x00")
	for _, part := range strings.Split(name, "/") {
		bad = bad || part == "" || part == "." || part == ".."
	}
	if bad {
		return fmt.Errorf("%w: invalid name %q in a statement: must be relative, in UTF-8, with '/' between its parts",
			pack.ErrUnsupported, name)
	}
	return nil
}

func checkDigest(hex string) error {
	if len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return fmt.Errorf("%w: %q is not a SHA-256 in lower-case hex", pack.ErrCorrupt, hex)
	}
	return nil
}
