package signing

import (
	"bytes"
	"encoding/json"

	"github.com/lowpack/lowpack/pack"
)

// bundle is a sigstore bundle, as far as signatures by keys and certificates need it.
type bundle struct {
	hint      string   // at the key; "" = none
	chain     [][]byte // certificates in DER, that of the signer first; nil: signed by a key alone
	payload   []byte
	signature []byte // ASN.1
}

// JSON of a bundle, with the fields in the order in which they are written.
type (
	bundleJSON struct {
		MediaType string       `json:"mediaType"`
		Material  materialJSON `json:"verificationMaterial"`
		Envelope  envelopeJSON `json:"dsseEnvelope"`
	}
	materialJSON struct {
		PublicKey *publicKeyJSON `json:"publicKey,omitempty"`
		Chain     *chainJSON     `json:"x509CertificateChain,omitempty"`
		Entries   []struct{}     `json:"tlogEntries"` // none: nothing is sent to a transparency log
	}
	publicKeyJSON struct {
		Hint string `json:"hint"`
	}
	chainJSON struct {
		Certificates []certificateJSON `json:"certificates"`
	}
	certificateJSON struct {
		RawBytes []byte `json:"rawBytes"`
	}
	envelopeJSON struct {
		Payload    []byte          `json:"payload"`
		Type       string          `json:"payloadType"`
		Signatures []signatureJSON `json:"signatures"`
	}
	signatureJSON struct {
		Signature []byte `json:"sig"`
		Key       string `json:"keyid"`
	}
)

func (b *bundle) marshal() ([]byte, error) {
	out := bundleJSON{MediaType: bundleType, Material: materialJSON{Entries: []struct{}{}},
		Envelope: envelopeJSON{b.payload, payloadType, []signatureJSON{{Signature: b.signature}}}}
	if b.chain == nil {
		out.Material.PublicKey = &publicKeyJSON{b.hint}
	} else {
		out.Material.Chain = &chainJSON{}
		for _, der := range b.chain {
			out.Material.Chain.Certificates = append(out.Material.Chain.Certificates, certificateJSON{der})
		}
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // the media type has a plus sign
	err := e.Encode(out)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// parseBundle reads a bundle. Nothing of it is trusted yet.
func parseBundle(data []byte) (b *bundle, err error) {
	top := parse(data, "signature", &err).object("mediaType", "verificationMaterial", "dsseEnvelope")
	if err != nil {
		return nil, err
	}
	top.get("mediaType").is(bundleType)
	b = &bundle{}
	b.readMaterial(top.get("verificationMaterial"))
	e := top.get("dsseEnvelope").object("payload", "payloadType", "signatures")
	e.get("payloadType").is(payloadType)
	b.payload = e.get("payload").bytes()
	for _, s := range e.get("signatures").list(1, 1) {
		b.signature = s.object("sig", "keyid").get("sig").bytes()
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// readMaterial reads who is said to have signed.
func (b *bundle) readMaterial(m node) {
	if m.get("certificate").Value != nil {
		m.fail(pack.ErrUnsupported, "a keyless signature, by a certificate of a few minutes and an entry in a "+
			"transparency log; sign with a key or with a certificate of your own")
	}
	m.object("publicKey", "x509CertificateChain", "tlogEntries")
	if entries := m.get("tlogEntries"); entries.Value != nil && len(entries.list(0, 1)) > 0 {
		entries.fail(pack.ErrUnsupported, "entries of a transparency log")
	}
	key, chain := m.get("publicKey"), m.get("x509CertificateChain")
	switch {
	case (key.Value == nil) == (chain.Value == nil):
		m.fail(pack.ErrCorrupt, "want either publicKey or x509CertificateChain")
	case key.Value != nil:
		// model-signing before 1.1.0 wrote the key itself, not its digest: it proves nothing and is not read
		if key = key.object("hint", "rawBytes", "keyDetails"); key.get("hint").Value != nil {
			b.hint = key.get("hint").text()
		}
	default:
		for _, c := range chain.object("certificates").get("certificates").list(1, maxChain) {
			b.chain = append(b.chain, c.object("rawBytes").get("rawBytes").bytes())
		}
	}
}
