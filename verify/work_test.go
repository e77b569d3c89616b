package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
)

// TestQueue hashes bytes of many sizes among checks of another kind, with several workers: each check gets its own
// verdict, in the order of the items.
func TestQueue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, threads := range []int{1, 2, 3, 8} {
		s := begin(t.Context(), "", Options{Threads: threads}, Digest)
		var items []item
		var want []Verdict
		for i := range 100 {
			b := make([]byte, r.IntN(5<<(r.IntN(17))))
			for k := range b {
				b[k] = byte(r.Uint32())
			}
			sum := sha256.Sum256(b)
			it := item{name: fmt.Sprint(i), size: int64(len(b))}
			wrong := r.IntN(5) == 0
			if wrong {
				sum[r.IntN(len(sum))]++
			}
			it.bytes = newDigest(io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b))), hex.EncodeToString(sum[:]),
				otherBytes)
			if r.IntN(10) == 0 {
				it.bytes, it.check = nil, func() error {
					if wrong {
						return broken("", "no")
					}
					return nil
				}
			}
			items = append(items, it)
			want = append(want, map[bool]Verdict{false: Pass, true: Fail}[wrong])
		}
		if err := s.each(Digest, "items", items); err != nil {
			t.Fatal(err)
		}
		for i, c := range s.report.Checks {
			if c.Name != fmt.Sprint(i) || c.Verdict != want[i] {
				t.Errorf("%d threads, item %d: %+v instead of %s", threads, i, c, want[i])
			}
		}
		failing := errors.New("disk on fire")
		items[r.IntN(len(items))] = item{check: func() error { return failing }}
		if err := s.each(Digest, "items", items); err != failing {
			t.Errorf("%d threads: %v", threads, err)
		}
	}
}

// TestDigestsFirst: bytes that do not match the manifest are a finding of level digest alone, also where they were
// decoded in the same pass.
func TestDigestsFirst(t *testing.T) {
	path := file(t, small(t))
	f, err := packed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b := read(t, path)
	list := places(t, f, b)
	f.Close()
	for _, p := range list {
		changed := slices.Clone(b)
		changed[(p.begin+p.end)/2] ^= 0xff
		write(t, path, changed)
		digest, codes := failed(run(t, path, Options{Level: Digest})), failed(run(t, path, Options{Level: Codes}))
		if len(digest) != 1 || !slices.Equal(digest, codes) {
			t.Errorf("%s: level digest says %v, level codes %v", p.name, digest, codes)
		}
		write(t, path, b)
	}
}
