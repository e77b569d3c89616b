package golden

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lowpack/lowpack/formats/packed"
)

// script reads a stream with the JavaScript Arrow library and prints some of its content.
const script = `
const { tableFromIPC } = require("apache-arrow");
const table = tableFromIPC(require("fs").readFileSync(process.argv[1]));
const rows = table.toArray().map(r => r.toJSON());
const product = rows.find(r => r.kind === "product" && r.vectors === 5);
const last = rows.findLast(r => r.kind === "logits");
const text = rows.find(r => r.name === "accents");
console.log(JSON.stringify({
  version: table.schema.metadata.get("lowpack.golden"),
  rows: rows.length,
  columns: table.schema.fields.map(f => f.name + ": " + f.type),
  name: product.name, seed: String(product.seed), listed: Array.from(product.rows), products: Array.from(product.products),
  digest: product.products_sha256, position: last.position, given: last.given, top: Array.from(last.top_tokens),
  logits: Array.from(last.top_logits), other: product.logits_sha256,
  text: text.text, plain: text.plain, tokens: Array.from(text.tokens),
}));`

// TestJavaScript decodes a record with the JavaScript library apache-arrow. It is optional: it needs node and the
// library in NODE_PATH.
func TestJavaScript(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is absent")
	}
	if exec.Command(node, "-e", `require("apache-arrow")`).Run() != nil {
		t.Skip("the library apache-arrow is absent: npm install apache-arrow, and NODE_PATH set to its node_modules")
	}
	r := fill(plan(t, packed.GoldenFull))
	path := filepath.Join(t.TempDir(), "golden.arrow")
	if err := os.WriteFile(path, append(encode(t, r), make([]byte, 40)...), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(node, "-e", script, path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Version, Name, Seed, Digest string
		Rows, Position              int
		Columns                     []string
		Listed, Products, Top       []int32
		Tokens                      []int32
		Text                        string
		Plain                       bool
		Logits                      []float32
		Given                       bool
		Other                       *string
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	want := got
	product, last := r.Products[1], r.Logits[len(r.Logits)-1]
	want.Version, want.Name, want.Digest = "2", product.Tensor, product.Digest
	want.Listed, want.Products = product.Rows, product.Values
	want.Rows, want.Position, want.Given = len(r.Products)+len(r.Logits)+len(r.Texts), int(last.Position), false
	want.Top, want.Logits, want.Other = last.TopTokens, last.TopLogits, nil
	want.Text, want.Plain, want.Tokens = r.Texts[2].Text, false, r.Texts[2].Tokens
	want.Seed = strconv.FormatUint(product.Seed, 10)
	want.Columns = []string{
		"kind: Utf8", "name: Utf8", "seed: Uint64", "vectors: Int32", "rows: List<Int32>", "products: List<Int32>",
		"products_sha256: Utf8",
		"sequence: Int32", "position: Int32", "token: Int32", "given: Bool", "logits_sha256: Utf8",
		"top_tokens: List<Int32>",
		"top_logits: List<Float32>",
		"text: Utf8", "plain: Bool", "tokens: List<Int32>",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
