// Command packaging makes what a release publishes of the programs that make dist has built: archives, packages for
// Debian and Red Hat, an image, wheels for Python, manifests of package managers, lists of components, provenance and
// digests. What it writes depends on its input and the version of Go alone: no clock, no host, no user.
package main

import (
	"flag"
	"log"
)

// steps are in the order of what they need: manifests name archives, provenance names all that is there.
var steps = []struct {
	name string
	make func(*release) error
}{
	{"archives", archives},
	{"Linux packages", linuxPackages},
	{"image", image},
	{"wheels", wheels},
	{"components", components},
	{"manifests", manifests},
	{"provenance", provenance},
	{"digests", digests},
}

func main() {
	log.SetFlags(0)
	root := flag.String("root", "..", "the source tree, `DIR`")
	dist := flag.String("dist", "../dist", "the folder of the programs, and of what is made, `DIR`")
	prefix := flag.String("prefix", "", "the folder that make install filled, `DIR`")
	revision := flag.String("revision", "", "the commit of the source")
	flag.Parse()
	r, err := open(*root, *dist, *prefix, *revision)
	if err != nil {
		log.Fatalf("packaging: %v", err)
	}
	for _, step := range steps {
		if err := step.make(r); err != nil {
			log.Fatalf("packaging: %s: %v", step.name, err)
		}
	}
}
