package signing

import (
	"crypto/elliptic"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/interop"
)

// party is one way to sign and to verify: by a key, or by a certificate.
type party struct {
	name               string
	signer             *Signer
	trust              *Trust
	signing, verifying []string // command lines of model-signing without model and signature
}

// parties are keys of all curves, alone and certified.
func parties(t *testing.T) (list []party) {
	t.Helper()
	for i, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()} {
		dir := t.TempDir()
		write := func(name string, text []byte) string {
			path := filepath.Join(dir, name)
			put(t, path, string(text))
			return path
		}
		key, name := fixedKey(t, curve, byte(i+1)), curve.Params().Name
		private, public := write("key.pem", privatePEM(t, key)), write("public.pem", publicPEM(t, key.Public()))
		ca := newAuthority(t, curve)
		leaf := ca.leaf(t, key.Public(), nil)
		byKey, trust := signerAnd(t, key)
		byChain, _ := signerAnd(t, key)
		if err := byChain.Certify(inPEM(leaf, ca.middle)); err != nil {
			t.Fatal(err)
		}
		list = append(list,
			party{name + " key", byKey, trust, []string{"sign", "key", "--private_key", private},
				[]string{"verify", "key", "--public_key", public}},
			party{name + " certificate", byChain, ca.trust(t),
				[]string{"sign", "certificate", "--private_key", private, "--signing_certificate",
					write("leaf.pem", inPEM(leaf)), "--certificate_chain", write("middle.pem", inPEM(ca.middle))},
				[]string{"verify", "certificate", "--certificate_chain", write("root.pem", inPEM(ca.root))}})
	}
	return list
}

// modelSigning runs command lines of model-signing.
type modelSigning struct{ lines [][]string }

// add adds a command line and returns its number.
func (m *modelSigning) add(line []string, model, signature string) int {
	m.lines = append(m.lines, append(append([]string{}, line...), "--signature", signature, model))
	return len(m.lines) - 1
}

type answer struct {
	worked bool
	said   string
}

func (m *modelSigning) run(t *testing.T) (answers []answer) {
	t.Helper()
	text, err := json.Marshal(m.lines)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "lines.json")
	put(t, path, string(text))
	var said [][2]any
	if err := json.Unmarshal(interop.Python(t, "signing", "testdata/commands.py", path), &said); err != nil {
		t.Fatal(err)
	}
	for _, s := range said {
		answers = append(answers, answer{s[0].(bool), fmt.Sprint(s[1])})
	}
	return answers
}

// open opens and checks what a signature at a path says.
func (p *party) open(t *testing.T, model, signature string) error {
	t.Helper()
	text, err := os.ReadFile(signature)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := p.trust.Open(text)
	if err != nil {
		return err
	}
	return signed.Check(t.Context(), model, nil)
}

// signed is a model with a signature.
type signed struct {
	party            party
	model, signature string
	file             string // of the model, to be changed
}

// TestInteropModelSigning: model-signing accepts what we sign and we accept what it signs, files and directories, by
// keys of all curves, alone and certified. Neither accepts a model with another byte, nor the signature of somebody
// else, nor another predicate type.
func TestInteropModelSigning(t *testing.T) {
	var ours, theirs []signed
	var signs, accepts, refuses modelSigning
	all := parties(t)
	for i, p := range all {
		for _, sig := range []string{"../model.sig", "model.sig"} { // next to the directory, or in it
			file, dir := models(t)
			put(t, filepath.Join(dir, ".gitattributes"), "left out by model-signing")
			theirs = append(theirs, signed{p, file, file + ".sig", file},
				signed{p, dir, filepath.Join(dir, sig), filepath.Join(dir, "a", "c")})
		}
		file, dir := models(t)
		for _, s := range []signed{{p, file, file + ".sig", file}, {p, dir, dir + ".sig", filepath.Join(dir, "z")}} {
			m := list(t, s.model)
			m.Provenance = []byte(`{"a": [1, "<&>"]}`)
			put(t, s.signature, string(sign(t, p.signer, m)))
			ours = append(ours, s)
			accepts.add(p.verifying, s.model, s.signature)
			refuses.add(all[(i+2)%len(all)].verifying, s.model, s.signature) // another curve
			payload, err := m.statement()
			if err != nil {
				t.Fatal(err)
			}
			other := s.signature + ".other"
			put(t, other, string(resigned(t, p.signer, edit(t, payload, "https://slsa.dev/provenance/v1",
				"predicateType"))))
			refuses.add(p.verifying, s.model, other)
			if err := p.open(t, s.model, other); err == nil {
				t.Errorf("%s: another predicate type is accepted", p.name)
			}
		}
	}
	for _, s := range theirs {
		signs.add(s.party.signing, s.model, s.signature)
	}
	for i, a := range signs.run(t) {
		s := theirs[i]
		if !a.worked {
			t.Fatalf("model-signing does not sign by %s: %s", s.party.name, a.said)
		}
		if err := s.party.open(t, s.model, s.signature); err != nil {
			t.Errorf("%s: we refuse what model-signing signed: %v", s.party.name, err)
		}
		put(t, s.file, "changed")
		if err := s.party.open(t, s.model, s.signature); err == nil {
			t.Errorf("%s: a changed model is accepted", s.party.name)
		}
	}
	for i, a := range accepts.run(t) {
		if s := ours[i]; !a.worked {
			t.Errorf("%s: model-signing refuses what we signed: %s", s.party.name, a.said)
		}
		put(t, ours[i].file, "changed")
		refuses.add(ours[i].party.verifying, ours[i].model, ours[i].signature)
	}
	for i, a := range refuses.run(t) {
		if a.worked {
			t.Errorf("model-signing accepts what it should not: %q", refuses.lines[i])
		}
	}
}
