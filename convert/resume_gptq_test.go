package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// TestResumeFeedback interrupts error feedback behind every weight, and in front of the first tensor that is written:
// the next run gives the bytes of one in one piece, and leaves nothing. What the first run has chosen it takes over, if
// that is not damaged.
func TestResumeFeedback(t *testing.T) {
	path := shared.Testdata(t, "tiny-bitnet")
	o := plain(packed.Recipe{Quant: "int4", Scale: "group:32", AllowLossy: true, Include: []string{"*layers.0.*"}})
	o.Calibration, o.Method = []Document{{Text: calibrationText}}, packed.GPTQ
	want := once(t, path, o)
	resumed := o
	resumed.Resume = true
	codes := func(at place) string { return at.target + CodesSuffix }
	stop := func(now func(what string, done, total int64) bool) place {
		at := newPlace(t, "")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		first := resumed
		first.Progress = func(what string, done, total int64) {
			if now(what, done, total) {
				cancel()
			}
		}
		if _, err := newPlan(t, path, first).Run(ctx, at.target); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		return at
	}
	finish := func(at place, o Options) [32]byte {
		if _, err := newPlan(t, path, o).Run(context.Background(), at.target); err != nil {
			t.Fatal(err)
		}
		return digestAlone(t, at)
	}
	const weights = 7
	behind := func(count int) place {
		calls := 0
		return stop(func(what string, _, _ int64) bool {
			if what == FeedbackPhase {
				calls++
			}
			return what == FeedbackPhase && calls == count
		})
	}
	for call := 1; call <= weights; call++ {
		if finish(behind(call), resumed) != want {
			t.Errorf("interrupted at weight %d: other bytes after it was resumed", call)
		}
	}
	for what, change := range map[string]func(at place) Options{
		"not resumed": func(place) Options { return o },
		"codes cut":   func(at place) Options { os.Truncate(atomicfile.ResumePath(codes(at)), 5000); return resumed },
		"codes gone":  func(at place) Options { os.Remove(atomicfile.ResumePath(codes(at))); return resumed },
		"damaged": func(at place) Options {
			b, _ := os.ReadFile(atomicfile.ResumePath(codes(at)))
			b[7] ^= 1
			os.WriteFile(atomicfile.ResumePath(codes(at)), b, 0o644)
			return resumed
		},
	} {
		if at := behind(weights - 2); finish(at, change(at)) != want {
			t.Errorf("%s: other bytes than in one piece", what)
		}
	}
	at := behind(weights - 2)
	forgeCodes(t, codes(at))
	if finish(at, resumed) == want {
		t.Error("what an earlier run has chosen is chosen again")
	}
	all := false
	at = stop(func(what string, done, total int64) bool {
		written := all && what != FeedbackPhase
		all = all || what == FeedbackPhase && done == total
		return written
	})
	calls := 0
	resumed.Progress = func(what string, _, _ int64) {
		if what == FeedbackPhase {
			calls++
		}
	}
	if finish(at, resumed) != want || calls > 0 {
		t.Errorf("after all weights were chosen %d of them are chosen again, or other bytes", calls)
	}
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// forgeCodes sets the codes of the first weight that a journal tells of to 0, with their digest.
func forgeCodes(t *testing.T, target string) {
	t.Helper()
	lines, err := os.ReadFile(JournalPath(target))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(atomicfile.ResumePath(target))
	if err != nil {
		t.Fatal(err)
	}
	split := strings.SplitAfter(string(lines), "\n")
	var n note
	if err := json.Unmarshal([]byte(split[1]), &n); err != nil {
		t.Fatal(err)
	}
	const weights, group = 256 * 256, 32 // of the query projection
	forged := false
	for at := 0; at+weights+4*weights/group <= len(data) && !forged; at += 1024 {
		codes, both := data[at:][:weights], data[at:][:weights+4*weights/group]
		if forged = digestOf(both) == n.SHA256; forged {
			clear(codes)
			split[1] = strings.Replace(split[1], n.SHA256, digestOf(both), 1)
		}
	}
	if !forged {
		t.Fatalf("%s is not in the file", n.Tensor)
	}
	if err := errors.Join(os.WriteFile(JournalPath(target), []byte(strings.Join(split, "")), 0o644),
		os.WriteFile(atomicfile.ResumePath(target), data, 0o644)); err != nil {
		t.Fatal(err)
	}
}
