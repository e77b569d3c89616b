package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/signing"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify"
)

// signatureFlags say whose signatures are asked for.
func signatureFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "require-signature",
			Usage: "accept only what is signed, by --key or --certificate; both imply it"},
		inputFlag("key", "accept signatures by the public key in `FILE` (PEM)"),
		inputFlag("certificate", "accept signatures that the certificates in `FILE` (PEM) vouch for"),
	}
}

// byAnyone is why whose signatures are accepted must be said.
const byAnyone = "a signature by just anyone proves nothing"

// trusted returns whose signatures are accepted; nil if none is asked for.
func trusted(c *cli.Context) (*signing.Trust, error) {
	key, certificate := c.String("key"), c.String("certificate")
	switch {
	case key != "" && certificate != "":
		return nil, usagef("--key and --certificate cannot be combined: a signature is by one or the other")
	case key != "":
		return trustIn(key, signing.TrustKey)
	case certificate != "":
		return trustIn(certificate, signing.TrustCertificates)
	case c.Bool("require-signature"):
		return nil, usagef("--require-signature needs --key or --certificate: %s", byAnyone)
	}
	return nil, nil
}

func trustIn(path string, read func([]byte) (*signing.Trust, error)) (*signing.Trust, error) {
	text, err := readSmall(path, maxWritten)
	if err != nil {
		return nil, err
	}
	trust, err := read(text)
	return trust, filerr.Named(path, err)
}

// openSignature reads what the signature at a path says of a model, and refuses one that is not by whom it should be.
func openSignature(trust *signing.Trust, path, model string) (*signing.Signed, error) {
	text, err := readSmall(path, signing.MaxSize)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s is not signed: %w; lowpack sign makes a signature", model, err)
	case err != nil:
		return nil, err
	}
	signed, err := trust.Open(text)
	return signed, filerr.Named(path, err)
}

// signature is what verify found out about one.
type signature struct {
	path string
	*signing.Signed
	fault error // why it is not accepted; nil: it is
}

// checkSignature checks the signature of a model, if one is asked for; nil if not.
func checkSignature(c *cli.Context, model string) (*signature, error) {
	trust, err := trusted(c)
	if err != nil {
		return nil, err
	}
	s := &signature{path: c.String("signature")}
	switch {
	case trust == nil && s.path != "":
		return nil, usagef("--signature needs --key or --certificate: %s", byAnyone)
	case trust == nil:
		return nil, nil
	case s.path == "":
		s.path = signatureOf(model)
	}
	if s.Signed, err = openSignature(trust, s.path, model); err == nil {
		s.ignoreItself(model)
		bar := newProgress(besideResult(c), "verify: signature")
		err = s.Check(c.Context, model, func(done, total int64) { bar.set(done, total, model) })
		bar.done()
	}
	if faulty(err) {
		s.fault, err = err, nil
	}
	return s, err
}

// faulty reports whether an error is one of a file, or of the lack of one, and not of the machine at this moment.
func faulty(err error) bool {
	return slices.ContainsFunc([]error{pack.ErrCorrupt, pack.ErrUnsupported, pack.ErrLimit, fs.ErrNotExist},
		func(class error) bool { return errors.Is(err, class) })
}

// ignoreItself leaves the signature out of the directory that it is for: model-signing before 1.1.0 does not list the
// paths that it ignores.
func (s *signature) ignoreItself(model string) {
	dir, errDir := filepath.Abs(model)
	path, errPath := filepath.Abs(s.path)
	if name, err := filepath.Rel(dir, path); errors.Join(errDir, errPath, err) == nil && filepath.IsLocal(name) {
		s.Ignore = append(s.Ignore, filepath.ToSlash(name))
	}
}

// refused reports a packed file without an accepted signature; nothing else of it is checked.
func (s *signature) refused(path string) *verify.Report {
	return &verify.Report{File: path, Level: verify.Digest, Checks: []verify.Check{{Level: verify.Digest,
		Group: "signature", Name: "signature", Verdict: verify.Fail, Reason: s.fault.Error()}}}
}

// statement adds the signed provenance statement to those that verify compares with the file.
func (s *signature) statement(o *verify.Options) error {
	switch {
	case s == nil || s.Provenance == nil:
		return nil
	case o.Provenance != nil:
		return usagef("--provenance cannot be combined with a signature that holds a statement, as %s does", s.path)
	}
	o.Provenance, o.Statement = s.Provenance, s.path
	return nil
}

// report adds the signature to a report: one check of level digest, the first.
func (s *signature) report(r *verify.Report) {
	if s == nil {
		return
	}
	r.Checks = append([]verify.Check{{Level: verify.Digest, Group: "signature", Name: "signature",
		Verdict: verify.Pass}}, r.Checks...)
	r.Details = append(r.Details, "signed by "+s.Who)
}

// checkOpen checks the signature next to a packed file that is open: no other file can take its place.
func checkOpen(c *cli.Context, trust *signing.Trust, path string, f *packed.File) error {
	signed, err := openSignature(trust, signatureOf(path), path)
	if err != nil {
		return err
	}
	bar := newProgress(besideResult(c), "verify: signature")
	defer bar.done()
	whole := f.Whole()
	err = signed.CheckFile(c.Context, whole, whole.Size(), func(done, total int64) { bar.set(done, total, path) })
	if err == nil {
		detail(c, "signed by "+signed.Who+": "+path)
	}
	return filerr.Named(path, err)
}
