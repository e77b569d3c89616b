package provenance

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

const fileDigest = "173c87a53759e0201f33e0ccf978e510c2042d7f2cb78229d9a50d79b9e7dd08"

func digestOf(c string) string { return strings.Repeat(c, 64) }

func manifest() *packed.Manifest {
	return &packed.Manifest{
		Format: 1, Tool: "lowpack 0.1.0", Family: "bitnet",
		Sources: []packed.Source{{Name: "config.json", Size: 3, SHA256: digestOf("1")},
			{Name: "model-00001-of-00002.safetensors", Size: 4, SHA256: digestOf("2")}},
		Recipe: packed.Recipe{Quant: "auto", Layout: "vnni4i", Golden: "full", AllowLossy: true,
			Include: []string{"*<&>*"},
			Params:  map[string]int{"bm": 32},
			Rules:   []packed.Rule{{Match: "lm_head.weight", Quant: "int8"}}},
	}
}

func statementText(t *testing.T) string {
	t.Helper()
	text, err := Statement("model.safetensors", fileDigest, manifest())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestStatement compares the bytes with what in-toto and SLSA prescribe. They are signed, so every byte matters.
func TestStatement(t *testing.T) {
	want := `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"model.safetensors","digest":{"sha256":"` +
		fileDigest + `"}}],` +
		`"predicateType":"https://slsa.dev/provenance/v1","predicate":{"buildDefinition":{` +
		`"buildType":"https://github.com/lowpack/lowpack/blob/main/docs/CI.md#provenance",` +
		`"externalParameters":{"recipe":{"quant":"auto","layout":"vnni4i","params":{"bm":32},"golden":"full",` +
		`"allow_lossy":true,"include":["*<&>*"],"rules":[{"match":"lm_head.weight","quant":"int8"}]}},` +
		`"resolvedDependencies":[{"name":"config.json","digest":{"sha256":"` + digestOf("1") +
		`"}},{"name":"model-00001-of-00002.safetensors","digest":{"sha256":"` + digestOf("2") + `"}}]},` +
		`"runDetails":{"builder":{"id":"https://github.com/lowpack/lowpack","version":{"lowpack":"0.1.0"}}}}}` + "\n"
	if got := statementText(t); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !json.Valid([]byte(want)) {
		t.Error("not JSON")
	}
}

func TestCheck(t *testing.T) {
	text := statementText(t)
	if err := Check([]byte(text), fileDigest, manifest()); err != nil {
		t.Errorf("its own statement: %v", err)
	}
	for name, edit := range map[string][2]string{
		"another file name": {"model.safetensors", "renamed.safetensors"},
		"another builder":   {`"id":"https://github.com/lowpack/lowpack"`, `"id":"https://ci.example/run"`},
		"more fields":       {`"runDetails":{`, `"runDetails":{"metadata":{"invocationId":"7"},`},
		"white space":       {`,"predicate":`, ",\n  \"predicate\" : "},
		"fields in any order": {`"name":"config.json","digest":{"sha256":"` + digestOf("1") + `"}`,
			`"digest":{"sha256":"` + digestOf("1") + `"},"name":"config.json"`},
	} {
		if err := Check([]byte(replace(t, text, edit)), fileDigest, manifest()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func replace(t *testing.T, text string, edit [2]string) string {
	t.Helper()
	if !strings.Contains(text, edit[0]) {
		t.Fatalf("%q is not in the statement", edit[0])
	}
	return strings.Replace(text, edit[0], edit[1], 1)
}

// TestCheckFinds: every change of a statement is found and named.
func TestCheckFinds(t *testing.T) {
	text := statementText(t)
	for word, edit := range map[string][2]string{
		"subject[0].digest.sha256": {fileDigest, digestOf("3")},
		"subject has 2": {`"subject":[`,
			`"subject":[{"name":"x","digest":{"sha256":"` + digestOf("4") + `"}},`},
		"subject has 0": {`"subject":[{"name":"model.safetensors","digest":{"sha256":"` +
			fileDigest + `"}}]`, `"subject":[]`},
		"_type is":                                     {"Statement/v1", "Statement/v0.1"},
		"predicateType":                                {"provenance/v1", "provenance/v0.2"},
		"buildType":                                    {"CI.md#provenance", "CI.md#other"},
		"externalParameters.recipe.layout":             {`"vnni4i"`, `"i2s"`},
		"externalParameters.recipe.params.bm":          {`"bm":32`, `"bm":64`},
		"externalParameters.recipe.allow_lossy":        {`"allow_lossy":true`, `"allow_lossy":false`},
		"externalParameters.recipe.rules[0].quant":     {`"quant":"int8"`, `"quant":"int4"`},
		"externalParameters.recipe.include is missing": {`"include":["*<&>*"],`, ``},
		"resolvedDependencies[1].digest.sha256":        {digestOf("2"), digestOf("5")},
		"resolvedDependencies[0].name":                 {`"config.json"`, `"other.json"`},
		"resolvedDependencies[0].digest is missing": {`"digest":{"sha256":"` + digestOf("1") + `"}`,
			`"digest":null`},
		"runDetails.builder.version.lowpack": {`"lowpack":"0.1.0"`, `"lowpack":"0.2.0"`},
		"runDetails.builder.id is a number":  {`"id":"https://github.com/lowpack/lowpack"`, `"id":7`},
		"twice":                              {`"predicateType"`, `"subject":[],"predicateType"`},
		"is expected":                        {"}}}}}\n", "}}}}"},
	} {
		err := Check([]byte(replace(t, text, edit)), fileDigest, manifest())
		if !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// TestCheckReportsAll: one call reports every difference.
func TestCheckReportsAll(t *testing.T) {
	m := manifest()
	m.Sources[0].SHA256, m.Recipe.Layout = digestOf("6"), "tl1"
	err := Check([]byte(statementText(t)), digestOf("7"), m)
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want three differences: %v", err)
	}
}

func TestRefused(t *testing.T) {
	for _, name := range []string{"", "/abs", "../x", "a/../b", "a//b", "./a", "a\\b", "a\x00b", "\xff", "a/"} {
		if _, err := Statement(name, fileDigest, manifest()); err == nil {
			t.Errorf("subject %q is accepted", name)
		}
		m := manifest()
		m.Sources[1].Name = name
		if _, err := Statement("x", fileDigest, m); err == nil {
			t.Errorf("source %q is accepted", name)
		}
	}
	for _, sha := range []string{"", "abc", strings.ToUpper(fileDigest), fileDigest + "0"} {
		if _, err := Statement("x", sha, manifest()); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("digest %q: %v", sha, err)
		}
	}
	m := manifest()
	m.Tool = "lowpack"
	if _, err := Statement("x", fileDigest, m); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("a tool without version: %v", err)
	}
	if err := Check(make([]byte, MaxSize+1), fileDigest, manifest()); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("a huge statement: %v", err)
	}
}

// FuzzCheck: for any text, Check returns differences or nil, and never panics.
func FuzzCheck(f *testing.F) {
	text, err := Statement("model.safetensors", fileDigest, manifest())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"_type":"https://in-toto.io/Statement/v1"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if Check(text, fileDigest, manifest()) == nil && !strings.Contains(string(text), "sha256") {
			t.Error("accepted without a digest")
		}
	})
}
