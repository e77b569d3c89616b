// Package tinymodel packs the bundled model, for tests of what runs models.
package tinymodel

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

var once struct {
	sync.Mutex
	data []byte
}

// Path returns a packed file of testdata/tiny-bitnet-packed, which the test may change. It is made once per process.
func Path(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny-bitnet.safetensors")
	once.Lock()
	defer once.Unlock()
	if once.data == nil {
		once.data = convertTo(t, path)
	} else if err := os.WriteFile(path, once.data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func convertTo(t testing.TB, path string) []byte {
	t.Helper()
	plan, err := convert.NewPlan(context.Background(), shared.Testdata(t, "tiny-bitnet-packed"), convert.Options{Recipe: packed.Recipe{Golden: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	if _, err := plan.Run(context.Background(), path, nil); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
