package main

import (
	"encoding/json"
	"runtime"
	"strings"

	"github.com/in-toto/in-toto-golang/in_toto/slsa_provenance/common"
	slsa "github.com/in-toto/in-toto-golang/in_toto/slsa_provenance/v1"
)

// statement is that of in-toto, version 1; the library has the older one.
type statement struct {
	Type          string                   `json:"_type"`
	Subject       []subject                `json:"subject"`
	PredicateType string                   `json:"predicateType"`
	Predicate     slsa.ProvenancePredicate `json:"predicate"`
}

type subject struct {
	Name   string           `json:"name"`
	Digest common.DigestSet `json:"digest"`
}

// provenance writes of what all other files were made: unsigned, for a signer.
func provenance(r *release) error {
	list, err := r.published()
	if err != nil {
		return err
	}
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: slsa.PredicateSLSAProvenance}
	for _, d := range list {
		s.Subject = append(s.Subject, subject{d.name, common.DigestSet{"sha256": d.sum}})
	}
	source := slsa.ResourceDescriptor{URI: "git+" + home}
	if commit, _, _ := strings.Cut(r.revision, "+"); commit != "" {
		source.URI += "@" + commit
		source.Digest = common.DigestSet{"gitCommit": commit}
	}
	s.Predicate = slsa.ProvenancePredicate{
		BuildDefinition: slsa.ProvenanceBuildDefinition{
			BuildType: home + "/blob/main/docs/INSTALL.md#releases",
			ExternalParameters: map[string]string{"repository": home, "revision": r.revision, "version": r.version,
				"target": "dist"},
			InternalParameters:   map[string]string{"go": runtime.Version()},
			ResolvedDependencies: []slsa.ResourceDescriptor{source},
		},
		RunDetails: slsa.ProvenanceRunDetails{Builder: slsa.Builder{ID: home}},
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return r.write("lowpack_"+r.version+".provenance.json", append(text, '\n'))
}
