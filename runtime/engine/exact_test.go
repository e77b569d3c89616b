package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// texts are token sequences of different lengths: prompts of the golden record with their continuations.
func texts(t testing.TB) (list [][]int) {
	var g golden
	readGolden(t, &g)
	for i, p := range g.Prompts[:4] {
		list = append(list, append(slices.Clone(p.PromptIDs), p.GreedyIDs[:7*i+3]...))
	}
	return list
}

// everything returns the logits after every token of every text, one text at a time.
func everything(t testing.TB, e *Engine) (rows [][][]float32) {
	for _, tokens := range texts(t) {
		rows = append(rows, logits(t, e, tokens, len(tokens)))
	}
	return rows
}

// caches are the formats of the KV cache.
var caches = CacheTypes()

// TestLogitsDigest compares the logits of the bundled model with the digests in testdata, one per KV cache format, and
// one of activations of 16 bits.
// TestLogitsDigestElsewhere runs it with every instruction set, and with LOWPACK_LONG=1 without assembly and on another
// architecture.
func TestLogitsDigest(t *testing.T) {
	t.Logf("instruction set %s", kernel.Best())
	got := ""
	digest := func(e *Engine, name string) {
		h, tokens := sha256.New(), texts(t)[2]
		for _, row := range logits(t, e, tokens, len(tokens)) {
			h.Write(bytesOf(row))
		}
		got += fmt.Sprintf("%x  %s\n", h.Sum(nil), name)
	}
	for _, cache := range caches {
		digest(engine(t, tiny(t), Options{Cache: cache}), string(cache))
	}
	digest(engine(t, tiny16(t), Options{}), "token16")
	want, err := os.ReadFile(filepath.Join("testdata", "tiny-bitnet.logits.sha256"))
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("digests\n%swant\n%s", got, want)
	}
}

func TestLogitsDigestElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("other builds take a while")
	}
	for _, isa := range kernel.Available() {
		t.Run(string(isa), func(t *testing.T) {
			digestOf(t, os.Args[0], kernel.EnvISA+"="+string(isa), "instruction set "+string(isa))
		})
	}
	t.Run("builds", digestOfBuilds)
}

// digestOfBuilds compiles this package in other configurations, which takes long; steps of .ci/run do the same without
// assembly and for arm64.
func digestOfBuilds(t *testing.T) {
	long.Only(t)
	if runtime.GOARCH != "amd64" || runtime.GOOS != "linux" {
		t.Skip("the other builds run on linux/amd64 only")
	}
	for _, c := range []struct{ name, env, tags, emulator string }{
		{"purego", "GOAMD64=v1", "purego", ""},
		{"GOAMD64=v3", "GOAMD64=v3", "purego", ""},
		{"arm64", "GOARCH=arm64", "", "qemu-aarch64-static"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.emulator); c.emulator != "" && err != nil {
				t.Skipf("%s is not installed", c.emulator)
			}
			binary := filepath.Join(t.TempDir(), "engine.test")
			build := exec.Command("go", "test", "-c", "-tags="+c.tags, "-o", binary, ".")
			build.Env = append(os.Environ(), c.env)
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			digestOf(t, strings.TrimSpace(c.emulator+" "+binary), kernel.EnvISA+"=", "instruction set")
		})
	}
}

// digestOf runs TestLogitsDigest of a test binary and expects a line in its log.
func digestOf(t *testing.T, command, env, line string) {
	t.Helper()
	argv := append(strings.Fields(command), "-test.run=^TestLogitsDigest$", "-test.v")
	run := exec.Command(argv[0], argv[1:]...)
	run.Env = append(os.Environ(), env)
	out, err := run.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestLogitsDigest")) || !bytes.Contains(out, []byte(line)) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestLogitsAreTheSame: threads, chunks, batches and passes change no bit of any logit, in any KV cache format.
func TestLogitsAreTheSame(t *testing.T) {
	for _, cache := range race.Few(1, caches) {
		want := everything(t, engine(t, tiny(t), Options{Threads: 1, Cache: cache}))
		for _, o := range []Options{
			{Threads: 2}, {Threads: 7}, {Threads: 2, Batch: 1}, {Threads: 2, Batch: 5},
			{Threads: 3, Batch: 17, Context: 100},
		} {
			o.Cache = cache
			compareRows(t, everything(t, engine(t, tiny(t), o)), want)
		}
		// token by token, each shared among workers
		e := engine(t, tiny(t), Options{Threads: 3, Batch: 1, Cache: cache})
		e.pass.attention.long = 1
		compareRows(t, everything(t, e), want)
		for _, o := range []Options{{Threads: 1, Batch: 3}, {Threads: 7}, {Threads: 2, Batch: 64}} {
			o.Cache, o.Sequences = cache, 4
			for _, chunk := range race.Few(2, []int{7, 1000, 1, 2}) {
				compareRows(t, together(t, engine(t, tiny(t), o), chunk), want)
			}
		}
	}
}

// TestLayoutsGiveTheSameLogits covers every layout that a model can run with.
func TestLayoutsGiveTheSameLogits(t *testing.T) {
	want := everything(t, engine(t, tiny(t), Options{}))
	for _, info := range race.Few(12, pack.Layouts()) {
		if info.Block != 0 || !slices.Contains(info.AlphabetNames(), pack.Ternary.Name) {
			continue
		}
		t.Run(info.Name, func(t *testing.T) {
			v := fromCheckpoint(t, shared.Testdata(t, "tiny-bitnet"), info.Name, false)
			compareRows(t, everything(t, engine(t, v, Options{})), want)
		})
	}
}

// together computes all texts at once, chunk tokens of each per call; the shorter ones finish earlier.
func together(t *testing.T, e *Engine, chunk int) [][][]float32 {
	list := texts(t)
	rows := make([][][]float32, len(list))
	seqs := make([]*Sequence, len(list))
	for i := range list {
		seqs[i] = sequence(t, e)
		defer seqs[i].Close()
	}
	vocab := e.Description().Vocab
	for at := 0; ; at += chunk {
		var batch []Chunk
		for i, tokens := range list {
			if at < len(tokens) {
				next := tokens[at:min(at+chunk, len(tokens))]
				flat := make([]float32, len(next)*vocab)
				batch = append(batch, Chunk{Seq: seqs[i], Tokens: next, Logits: flat})
				for j := range next {
					rows[i] = append(rows[i], flat[j*vocab:][:vocab])
				}
			}
		}
		if len(batch) == 0 {
			return rows
		}
		if err := e.Forward(context.Background(), batch); err != nil {
			t.Fatal(err)
		}
	}
}

func compareRows(t *testing.T, got, want [][][]float32) {
	t.Helper()
	for i := range want {
		for j := range want[i] {
			if !slices.Equal(got[i][j], want[i][j]) {
				t.Fatalf("text %d: the logits of position %d differ", i, j)
			}
		}
	}
}

// TestDecodeAllocatesNothing covers a step of one sequence and of a batch, with one worker and with several.
func TestDecodeAllocatesNothing(t *testing.T) {
	for _, threads := range []int{1, 2} {
		for _, cache := range caches {
			e := engine(t, tiny(t), Options{Threads: threads, Sequences: 3, Context: 256, Cache: cache})
			var batch []Chunk
			for range 3 {
				batch = append(batch, Chunk{Seq: sequence(t, e), Tokens: []int{5},
					Logits: make([]float32, e.Description().Vocab)})
			}
			for _, n := range []int{1, 3} {
				step := func() {
					if err := e.Forward(context.Background(), batch[:n]); err != nil {
						t.Fatal(err)
					}
				}
				if a := testing.AllocsPerRun(50, step); a != 0 {
					t.Errorf("%d threads, cache %s: a step of %d sequences allocates %v times", threads, cache, n, a)
				}
			}
		}
	}
}
