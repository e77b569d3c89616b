//go:build linux && amd64 && !purego

package roofline

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/testkit/tiles"
)

// TestMultiplyTiles runs the loop on tile registers with a model of them, and counts what it does.
func TestMultiplyTiles(t *testing.T) {
	const again, turns = "LOWPACK_TEST_TURNS", 5
	run, products := integers(kernel.AMX)
	if os.Getenv(again) != "" || kernel.Have(kernel.AMX) {
		run(turns)
		return
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	counts, err := tiles.Run("/proc/self/exe", []string{os.Args[0], "-test.run=^TestMultiplyTiles$"},
		append(os.Environ(), again+"=1"), out)
	if errors.Is(err, tiles.ErrTrace) {
		t.Skip(err)
	}
	if err != nil {
		text, _ := os.ReadFile(out.Name())
		t.Fatalf("%v\n%s", err, text)
	}
	if counts[tiles.LoadConfig] != 1 || counts[tiles.Release] != 1 || counts[tiles.Dot]*16*16*64 != turns*products {
		t.Errorf("%v in %d turns of %d products", counts, turns, products)
	}
}
