package lint

import (
	"strings"
	"testing"
)

// law says, per package or folder, which packages of this module it may import (folders cover what is below them).
// Imports point one way: cmd → convert, verify, runtime → formats → pack, and internal lies below formats.
var law = map[string][]string{
	"pack":             {"pack", "internal/float16"},
	"pack/explain":     {"pack", "internal/align"},
	"internal/float16": {},
	"convert/quantize": {"pack", "convert/quantize", "internal/float16"},
	"internal/kernel": {"pack", "internal/float16", "internal/mmap", "internal/numa", "internal/offheap",
		"internal/kernel"},
	"internal/tensor":     {"internal/float16", "internal/fma", "internal/kernel", "internal/tensor", "pack"},
	"formats/safetensors": {"pack", "formats/safetensors", "internal/filekind", "internal/jsonread"},
	"formats":             {"pack", "formats", "internal"},
	"verify/reference":    {"pack", "formats", "internal/parallel", "verify/internal/half", "verify/reference"},
	"verify":              {"pack", "formats", "internal", "runtime", "verify"},
	"convert": {"pack", "formats", "internal", "convert", "verify/reference", "runtime/chat",
		"runtime/tokenizer"},
	"convert/internal/record":    {"pack", "formats", "internal", "verify/reference", "runtime/engine"},
	"convert/internal/calibrate": {"pack", "formats", "internal", "convert/quantize", "runtime/engine"},
	"runtime":                    {"pack", "formats", "internal", "runtime"},
	"internal":                   {"pack", "internal"},
	"internal/atomicfile":        {"internal"},
	"internal/rotary":            {"formats/model", "internal/tensor"},
	"internal/testkit":           {"pack", "formats", "internal", "convert", "runtime"},
	"internal/jinja":             {"pack", "internal/jsonread", "internal/marked"},
	"runtime/chat": {"pack", "internal/filekind", "internal/jinja", "internal/jsonread",
		"internal/marked"},
	"runtime/tokenizer/internal": {"pack", "runtime/tokenizer/internal"},
}

// never says what a folder must not reach even indirectly: a server must not be able to parse a checkpoint, and the
// reference must not share code with what it judges. Of convert, calibration and the recorder of golden outputs reach
// the engine.
var never = map[string][]string{
	"convert/quantize":          {"internal/kernel", "internal/tensor", "runtime", "verify"},
	"convert/internal/pipeline": {"internal/kernel", "internal/tensor", "runtime", "verify"},
	"runtime":                   {"formats/checkpoint", "convert", "verify"},
	"internal/kernel":           {"formats", "convert", "verify", "runtime"},
	"internal/tensor":           {"formats", "convert", "verify", "runtime"},
	"formats":                   {"internal/kernel", "internal/tensor"},
	"verify/reference": {"internal/fma", "internal/kernel", "internal/tensor", "runtime", "convert",
		"formats/checkpoint"},
}

func TestImportLaw(t *testing.T) {
	for _, line := range goList(t, "-f", "{{.ImportPath}}: {{join .Imports \" \"}}") {
		path, imports, _ := strings.Cut(line, ": ")
		pkg := strings.TrimPrefix(path, module)
		allowed, ok := ruleFor(pkg)
		if !ok {
			continue
		}
		for _, imp := range strings.Fields(imports) {
			if dep, ours := strings.CutPrefix(imp, module); ours && !below(dep, allowed) {
				t.Errorf("%s imports %s; it may import only %v", pkg, dep, allowed)
			}
		}
	}
}

func TestForbiddenDependencies(t *testing.T) {
	for _, line := range goList(t, "-f", "{{.ImportPath}}: {{join .Deps \" \"}}") {
		path, deps, _ := strings.Cut(line, ": ")
		pkg := strings.TrimPrefix(path, module)
		for folder, forbidden := range never {
			if !below(pkg, []string{folder}) {
				continue
			}
			for _, imp := range strings.Fields(deps) {
				if dep, ours := strings.CutPrefix(imp, module); ours && below(dep, forbidden) {
					t.Errorf("%s depends on %s, which %s must never reach", pkg, dep, folder)
				}
			}
		}
	}
}

// ruleFor returns the rule of the longest folder that holds pkg.
func ruleFor(pkg string) (allowed []string, ok bool) {
	longest := ""
	for folder, a := range law {
		if below(pkg, []string{folder}) && len(folder) > len(longest) {
			longest, allowed, ok = folder, a, true
		}
	}
	return allowed, ok
}

func goList(t *testing.T, flags ...string) []string {
	t.Helper()
	lines, err := list("../..", flags...)
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return lines
}
