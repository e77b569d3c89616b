package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// components writes what each program consists of, as its linker noted it, in the form of CycloneDX. A module whose
// licence is not published is an error.
func components(r *release) error {
	for _, b := range builds() {
		if err := r.components(b); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) components(b build) error {
	data, err := r.read(b)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return err
	}
	for _, m := range info.Deps {
		if !r.licensed(m) {
			return fmt.Errorf("%s contains %s %s, whose licence THIRD-PARTY.txt lacks", b.bare(), m.Path, m.Version)
		}
	}
	var out bytes.Buffer
	encoder := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.EncodeVersion(r.bom(b, data, info), cdx.SpecVersion1_6); err != nil {
		return err
	}
	return r.write(r.archiveName(b)+".cdx.json", out.Bytes())
}

func (r *release) licensed(m *debug.Module) bool {
	for _, f := range r.licenses {
		if strings.Contains(string(f.data), "== "+m.Path+" "+m.Version+"\n") {
			return true
		}
	}
	return false
}

// bom lists the standard library and the modules of a program, on which it depends.
func (r *release) bom(b build, data []byte, info *debug.BuildInfo) *cdx.BOM {
	main := library(info.Main.Path, r.version)
	main.Type, main.Name, main.Description = cdx.ComponentTypeApplication, b.name, b.summary
	main.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(data))}}
	main.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	main.Properties = &[]cdx.Property{
		{Name: "platform", Value: b.os + "/" + b.arch},
		{Name: "revision", Value: r.revision},
	}
	parts := []cdx.Component{library("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		parts = append(parts, library(m.Path, m.Version))
	}
	needs := make([]string, len(parts))
	for i, part := range parts {
		needs[i] = part.BOMRef
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &needs}}
	return bom
}

// library is a module of Go.
func library(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
}
