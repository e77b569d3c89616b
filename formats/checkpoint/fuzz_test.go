package checkpoint

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/hostile"
	"github.com/lowpack/lowpack/pack"
)

// FuzzIndex: an index is rejected with a known class of error, or its shards have plain names and another parser finds
// the same map.
func FuzzIndex(f *testing.F) {
	for _, c := range hostile.In(hostile.Directory) {
		path, err := c.Build(f.TempDir())
		if err != nil {
			continue // this system has no pipes
		}
		if text, err := os.ReadFile(filepath.Join(path, indexFile)); err == nil {
			f.Add(text, uint64(0))
			f.Add(text, uint64(1))
		}
	}
	f.Add([]byte(`{"metadata":{"total_size":1.5e3,"x":[{"y":[null,true,-0.1e+5]}]},`+
		`"weight_map":{"\ud83d\ude00":"a.safetensors"},"z":false}`+"\n"), uint64(0))
	f.Add([]byte(`{"weight_map":{"a":"COM1.safetensors","b":"..","c":"/x","d":"x\\y","e":".safetensors"}}`), uint64(0))
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		text = hostile.Mutate(seed, text, `"weight_map":`, `"../x.safetensors"`, `"a.safetensors"`)
		x, err := parseIndex(text)
		if err != nil {
			if !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrLimit) {
				t.Errorf("an error of no kind: %v", err)
			}
			return
		}
		var keys map[string]json.RawMessage // a struct would match keys case-insensitively
		if err := json.Unmarshal(text, &keys); err != nil {
			t.Fatalf("another reader refuses: %v", err)
		}
		other := map[string]string{}
		if m, ok := keys["weight_map"]; ok {
			if err := json.Unmarshal(m, &other); err != nil {
				t.Fatalf("another reader refuses the map: %v", err)
			}
		}
		if len(other) != len(x.files) {
			t.Fatalf("%d tensors, another reader has %d", len(x.files), len(other))
		}
		for tensor, name := range x.files {
			if other[tensor] != name {
				t.Fatalf("tensor %q: %q, another reader has %q", tensor, name, other[tensor])
			}
			if plainName(name) == nil && (filepath.Base(name) != name || !filepath.IsLocal(name) || name == ".." ||
				strings.ContainsAny(name, "\x00/\\:")) {
				t.Fatalf("%q passes as a plain name", name)
			}
		}
	})
}
