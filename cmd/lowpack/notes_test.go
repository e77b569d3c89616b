package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// noteKinds are all notes, by how they begin. The value of a shown note contains the words that answer what the reader
// should do now; a note without an answer ("") is a detail, for --verbose and JSON.
var noteKinds = map[string]string{
	// Of checkpoints and plans.
	"both %s and %s exist":                                          "remove the first if",
	"%s: the shards %s and %s differ in case only":                  "",
	"%s: total_size is %d, the tensors have %d bytes":               "",
	"%s is not followed: %s":                                        "",
	"act_bits is not followed: %s":                                  "",
	"input_tensors is not followed: %s":                             "",
	"matrices with a %s are multiplied by it and become floats":     "",
	"%s declares %s, but all modules hold floats":                   "see whether this is the checkpoint",
	"config_sentence_transformers.json names prompts (%s), and":     "puts it in front of the text",
	"config_sentence_transformers.json names prompts (%s): ":        "",
	"there is no config.json":                                       "put it beside them",
	"there is no tokenizer.json, tokenizer.model, or vocab.json":    "Put the tokenizer of the model beside",
	"the packed file will not run text: %v":                         "convert again",
	"the tokenizer has no token for %d bytes":                       "",
	"chat template %q: %s":                                          "--chat-template FILE",
	"tensor %q is left out: rotary frequencies follow":              "",
	"tensor %q is left out: it is not of the text part":             "",
	"tensor %q is left out: it is %s":                               "",
	"activations are not quantized to 8-bit floats up to":           "",
	"activations are not quantized where weights are floats":        "",
	"the text part alone is converted":                              "send no images",
	"%d tensors %q are left out: they are for %s":                   "",
	"%d matrices have vectors of a grid in the GGUF":                "",
	"tensor %q is left out: config.json ties the output head":       "",
	"%v; so its floats stay floats":                                 "--quant NAME packs them",
	"matrices in blocks whose codes and scales a packed file canno": "--quant int8 makes them smaller",
	"nothing is packed: %s. Their linear layers take":               "smaller, with the loss",
	"activation_scheme %s is not followed":                          "",
	"it is not followed: %s":                                        "",
	"%d tensors are left out: scales of activations":                "",
	"%s without a text":                                             "--calibrate TEXT",
	"WARNING: %s makes two bits or fewer":                           "take --quant int4 or int8",
	"the machine was busy while layout and head were measured":      "repeat it",
	"head %s, the only one for auto here":                           "the only one",
	"layout %s, the default on every machine":                       "",
	"layout %s cannot have the codes of":                            "a rule of a recipe",
	"--layout auto had nothing to measure":                          "no linear layer is packed",
	// Of the other commands.
	"not covered, since the checkpoint does not tell": "",
	"running the packed file ":                        "",
	"signed by ":                                      "",
	"with its signature ":                             "",
	"%s of %s sent, the registry had the rest":        "",
	"nothing was removed":                             "nothing",
	"kept in ":                                        "remove the file to return to the tables",
	"%s: this removes what an interrupted download":   "once more removes it",
	"there are no models yet":                         "lowpack pull ORG/NAME",
	"%s is called %s now":                             "use that name",
	"the weights of %d tensors are rounded":           "--form f32 keeps them",
	"%s at http://%s/v1, chat at":                     "http://",
	"finishing requests, for at most %v":              "a second signal",
	"%s cut off":                                      "--drain lets them run",
	"loaded %s in":                                    "loaded",
	"unloaded ":                                       "unloaded",
	"%s could not be loaded: %v":                      "could not be loaded",
	"%s is not served: %v":                            "is not served",
	"%s is not served: its name is":                   "rename it",
	"%s holds no packed file yet":                     "yet",
	"the models stay as they are: %v":                 "stay as they are",
	"the file has no golden logits":                   "convert --golden full",
	"the file has no golden products":                 "convert --golden full",
	"the file has no golden texts":                    "convert --golden full",
	"batch %s could not be answered: %v":              "could not be answered",
	"%d of %s answered; the same command line":        "the same command line",
	"%s failed: %s says why":                          "says why",
	"%d tokens of prompts, %d generated":              "",
	"%s reads at most %d tokens: the beginning of":    "is left out",
	// Of NUMA nodes.
	"the weights are copied to the memory of %d NUMA nodes": "--numa distribute takes nothing",
	"%s are bound to %d NUMA nodes":                         "",
	"nothing is copied by --numa copy":                      "leave it out",
	// Of devices.
	"no %s device answers":                   "install its driver",
	"no device was found, so":                "install the driver",
	"device %s has room for %d of %d layers": "a shorter context",
	"%d of %d layers are on device %s":       "",
	// Computed differently by other runtimes.
	"llama.cpp computes SiLU where":                      "run the file with programs that read",
	"keep texts within %d tokens: llama.cpp":             "keep texts within",
	"windows are in other blocks than usual: llama.cpp":  "must be a version that reads a list",
	"the GGUF holds floats where the packed file has":    "--quant int8 --scale group:32",
	"llama.cpp rounds the ends of yarn's blend":          "",
	"of %d tokens that end a text, llama.cpp is told":    "",
	"tokenize elsewhere: no tokenizer for OpenVINO":      "tokenize elsewhere",
	"render conversations elsewhere: OpenVINO GenAI":     "render conversations elsewhere",
	"render conversations elsewhere: onnxruntime-genai":  "render conversations elsewhere",
	"activations stay floats (--arithmetic plain)":       "",
	"minima of %d tensors are numbers of their own":      "",
	"exact are the sums of integers, not the logits":     "",
	"the candidate filter of the output head is left ou": "",
	// Texts made elsewhere: the choices of --layout and --head auto, and the flags that make the same choices on every
	// machine.
	"%s": "", "layout": "layout", "head": "head",
}

// TestNoteKinds holds every note of the source against the list.
func TestNoteKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, dir := range []string{".", "../../convert", "../../convert/export", "../../convert/export/onnx",
		"../../convert/export/openvino", "../../formats/checkpoint", "../../formats/quantized", "../../verify",
		"../../runtime/server"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		var trees []*ast.File
		constants := map[string]string{}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			trees = append(trees, tree)
			maps.Copy(constants, constantsOf(tree))
		}
		for _, tree := range trees {
			notesOf(tree, constants, func(text string, isDetail bool) { checkNote(t, text, isDetail, seen) })
		}
	}
	for begin := range noteKinds {
		if !seen[begin] {
			t.Errorf("no note begins with %q", begin)
		}
	}
}

func checkNote(t *testing.T, text string, isDetail bool, seen map[string]bool) {
	t.Helper()
	for begin, action := range noteKinds {
		if !strings.HasPrefix(text, begin) || !strings.Contains(begin, " ") && text != begin {
			continue
		}
		seen[begin] = true
		if begin != "%s" && isDetail != (action == "") || !strings.Contains(text, action) {
			t.Errorf("%q: a detail: %t; it should say %q", text, isDetail, action)
		}
		return
	}
	t.Errorf("%q is in no list: what should a reader do?", text)
}

// appended maps a list to the kind of the values appended to it.
var appended = map[string]string{"Notes": "note", "notes": "note", "Details": "detail"}

// notesOf finds the texts of calls that note something, and of values that are appended to notes and details.
func notesOf(tree *ast.File, constants map[string]string, found func(text string, isDetail bool)) {
	ast.Inspect(tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := nameOf(call.Fun)
		if name == "append" && len(call.Args) > 1 {
			name = appended[nameOf(call.Args[0])]
		}
		name = strings.ToLower(name)
		if name != "note" && name != "warn" && name != "detail" {
			return true
		}
		for _, arg := range call.Args {
			text := textOf(arg)
			if constant, ok := arg.(*ast.Ident); ok && text == "" {
				text = constants[constant.Name]
			}
			if text != "" {
				found(text, name == "detail")
				break
			}
		}
		return true
	})
}

// constantsOf returns the texts of the constants of a file.
func constantsOf(tree *ast.File) map[string]string {
	texts := map[string]string{}
	ast.Inspect(tree, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			texts[v.Names[0].Name] = textOf(v.Values[0])
		}
		return true
	})
	return texts
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// textOf joins the strings of an expression.
func textOf(e ast.Expr) (text string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			s, _ := strconv.Unquote(lit.Value)
			text += s
		}
		return true
	})
	return text
}

// TestNotesShown: notes that need no action appear with --verbose and in JSON; notes about changes of the model are
// always shown.
func TestNotesShown(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(shared.Testdata(t, "tiny-bitnet"))); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "config.json"), strings.Replace(string(config), "{", `{"warp_scale": 2,`, 1))
	const always, asked = "config.json has keys that lowpack does not know", "layout vnni4i, the default"
	for _, c := range []struct {
		args   []string
		detail bool
	}{
		{[]string{"convert", dir, "--dry-run"}, false},
		{[]string{"convert", dir, "--dry-run", "--verbose"}, true},
		{[]string{"convert", dir, "--dry-run", "--json"}, true},
		{[]string{"convert", dir, "--golden", "none", "-o", filepath.Join(t.TempDir(), "m")}, false},
	} {
		code, out := inPlace(c.args...)
		if code != 0 || !strings.Contains(out, always) || strings.Contains(out, asked) != c.detail {
			t.Errorf("%q: %d\n%s", c.args, code, out)
		}
	}
}
