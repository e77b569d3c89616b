//go:build linux && amd64

package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/lowpack/lowpack/internal/testkit/tiles"
)

// TestTileRegisters runs the tests of kernels with tile registers on CPUs that lack them: this program once more, its
// tile instructions carried out by a model. Everything else of the kernels, and all that leads to them, runs as it is.
func TestTileRegisters(t *testing.T) {
	if os.Getenv(twin) != "" || os.Getenv(EnvISA) != "" || Have(AMX) {
		t.Skip("the other tests run with tile registers, or are to run with another instruction set")
	}
	if !cpu.X86.HasAVX512VBMI || !cpu.X86.HasAVX512GFNI || !Have(AVX512VNNI) {
		t.Skip("no AVX-512 VNNI, VBMI and GFNI")
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{os.Args[0], "-test.v",
		"-test.run=^(TestTiles.*|TestRequired|TestChoice|TestChunk|TestScaledInKernel)$"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	env := append(os.Environ(), twin+"="+string(AMX), "LOWPACK_REQUIRE_ISA="+string(AMX))
	counts, err := tiles.Run("/proc/self/exe", args, env, out)
	if errors.Is(err, tiles.ErrTrace) {
		t.Skip(err)
	}
	text, _ := os.ReadFile(out.Name())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	t.Logf("%v\n%s", counts, text)
}
