package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/signing"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/provenance"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/printable"
)

func signCommand() *cli.Command {
	return &cli.Command{
		Name:      "sign",
		Usage:     "sign a packed file, or what was exported",
		ArgsUsage: "PATH",
		UsageText: "lowpack sign PATH --key KEY.pem [--certificate CHAIN.pem] [flags]",
		Description: `The signature is a file of its own, PATH.sig, in the OpenSSF Model Signing format (a sigstore bundle with an in-toto
statement), which the Python package model-signing reads too. It covers the bytes of a file, or of every file below a
directory. The same bytes and the same key give the same signature. Nothing is sent anywhere. docs/SIGNING.md has the format.

The key is ECDSA on P-256, P-384 or P-521, in PEM: openssl ecparam -name prime256v1 -genkey -noout -out KEY.pem

  lowpack sign model.safetensors --key KEY.pem
  lowpack sign model.safetensors --key KEY.pem --certificate chain.pem
  lowpack sign model.safetensors --key KEY.pem --provenance provenance.json
  lowpack verify model.safetensors --key PUBLIC.pem`,
		Flags: []cli.Flag{
			inputFlag("key", "sign with the private key in `FILE`"),
			inputFlag("certificate", "add the certificates in `FILE`: the signer's first, then its issuers'"),
			inputFlag("provenance", "also sign the in-toto statement in `FILE`, as convert --provenance writes it"),
			output{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the signature to `FILE`",
				DefaultText: "PATH.sig", TakesFile: true}},
		},
		Action: runSign,
	}
}

func runSign(c *cli.Context) error {
	if err := wantArgs(c, 1, "PATH"); err != nil {
		return err
	}
	if !c.IsSet("key") {
		return usagef("sign needs --key FILE, a private key: openssl ecparam -name prime256v1 -genkey -noout -out FILE")
	}
	path, err := packedPath(c.Args().First())
	if err != nil {
		return err
	}
	target := c.String("output")
	if target == "" {
		target = signatureOf(path)
		if err := atomicfile.Check(target); err != nil {
			return err
		}
	}
	signer, err := signerOf(c)
	if err != nil {
		return err
	}
	statement, err := readStatement(c.String("provenance"))
	if err != nil {
		return err
	}
	bar := newProgress(besideResult(c), "sign")
	m, err := signing.List(c.Context, path, func(done, total int64) { bar.set(done, total, path) })
	bar.done()
	if err != nil {
		return err
	}
	if statement != nil {
		if err := addProvenance(m, path, statement); err != nil {
			return filerr.Named(c.String("provenance"), err)
		}
	}
	text, err := signer.Sign(m)
	if err != nil {
		return err
	}
	err = writeFile(target, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "signed %s by %s: %s\n", printable.Line(path), printable.Line(signer.Who()),
		printable.Line(target))
	return err
}

// signatureOf is the usual path of a signature: next to the model, also for a directory.
func signatureOf(path string) string { return filepath.Clean(path) + ".sig" }

// signerOf reads the private key and its certificates.
func signerOf(c *cli.Context) (*signing.Signer, error) {
	key, err := readSmall(c.String("key"), maxWritten)
	if err != nil {
		return nil, err
	}
	signer, err := signing.NewSigner(key)
	if err != nil || !c.IsSet("certificate") {
		return signer, filerr.Named(c.String("key"), err)
	}
	chain, err := readSmall(c.String("certificate"), maxWritten)
	if err != nil {
		return nil, err
	}
	return signer, filerr.Named(c.String("certificate"), signer.Certify(chain))
}

// addProvenance adds a statement to what is signed, if it is true of the packed file.
func addProvenance(m *signing.Manifest, path string, statement []byte) error {
	f, err := packed.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	m.Provenance = statement
	return provenance.Check(statement, fmt.Sprintf("%x", m.Files[0].SHA256), f.Manifest())
}
