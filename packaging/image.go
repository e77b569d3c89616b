package main

import (
	"bytes"
	"encoding/pem"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the number of the user that the program in an image runs as, and the owner of its home.
const (
	user     = 65532
	userName = "65532:65532"
)

// passwd names the users of the image, for programs that look the home of one up.
const passwd = "root:x:0:0:root:/:/sbin/nologin\nlowpack:x:65532:65532:lowpack:/home/lowpack:/sbin/nologin\n"

// image writes a tar of an OCI layout that holds one index, of an image for each architecture.
func image(r *release) error {
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range tool.builds("linux") {
		img, err := r.imageOf(b)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Platform: &v1.Platform{OS: b.os, Architecture: b.arch},
		}})
	}
	dir, err := os.MkdirTemp("", "lowpack-packaging-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	name := map[string]string{"org.opencontainers.image.ref.name": "lowpack:" + r.version}
	if err := path.AppendIndex(index, layout.WithAnnotations(name)); err != nil {
		return err
	}
	files, err := readTree(dir, ".")
	if err != nil {
		return err
	}
	data, err := tarOf(files, r.date, 0)
	if err != nil {
		return err
	}
	return r.write("lowpack_"+r.version+"_oci.tar", data)
}

// imageOf is the image of one architecture: what never changes below the program, so that versions share a layer.
func (r *release) imageOf(b build) (v1.Image, error) {
	program, err := r.read(b)
	if err != nil {
		return nil, err
	}
	base, err := r.layer(0, []file{
		{"etc/", 0o755, nil},
		{"etc/passwd", 0o644, []byte(passwd)},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, roots()},
		{"tmp/", 0o1777, nil},
	})
	if err != nil {
		return nil, err
	}
	owned, err := r.layer(user, []file{{"home/lowpack/", 0o755, nil}})
	if err != nil {
		return nil, err
	}
	files := append([]file{{"usr/bin/lowpack", 0o755, program}}, below("usr/share/doc/lowpack/", r.licenses)...)
	top, err := r.layer(0, files)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.AppendLayers(img, base, owned, top); err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = b.os, b.arch, v1.Time{Time: r.date}
	config.Config = v1.Config{
		User: userName, WorkingDir: "/home/lowpack", Entrypoint: []string{"/usr/bin/lowpack"},
		Env:    []string{"PATH=/usr/bin", "HOME=/home/lowpack"},
		Labels: r.labels(),
	}
	return mutate.ConfigFile(img, config)
}

// labels are those that the OCI image specification names.
func (r *release) labels() map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title": "lowpack", prefix + "description": summary, prefix + "licenses": "Apache-2.0",
		prefix + "source": home, prefix + "version": r.version, prefix + "revision": r.revision,
	}
}

func (r *release) layer(owner int, files []file) (v1.Layer, error) {
	data, err := tarOf(files, r.date, owner)
	if err != nil {
		return nil, err
	}
	if data, err = gzipOf(data); err != nil {
		return nil, err
	}
	return static.NewLayer(data, types.OCILayer), nil
}

// roots are the certificates of Mozilla with which lowpack pull checks the hub, but those whose limits PEM cannot
// express.
func roots() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			// A bytes.Buffer takes all.
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return b.Bytes()
}
