package convert

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
)

// TestBytesAreCounted: every command counts each byte that it reads once, and the sum equals the announced total.
func TestBytesAreCounted(t *testing.T) {
	path := mini(t, "llama-3.2-1b", nil) // tied: the head is a second form of the embedding
	for _, head := range []packed.Head{"", "int8", packed.HeadScreen} {
		o := plain(packed.Recipe{Quant: "int8", Layout: "vnni4", Head: head})
		all := parts(t, path, o, 2)
		whole := filepath.Join(t.TempDir(), "whole")
		least, most := tensorBytes(t, path), sizes(t, filepath.Join(path, "*.safetensors"))
		count(t, string(head)+": convert", least, most, func(p Progress) (*Summary, error) {
			o.Progress = p
			return newPlan(t, path, o).Run(context.Background(), whole)
		})
		count(t, string(head)+": merge", sizes(t, all...), sizes(t, all...), func(p Progress) (*Summary, error) {
			return Merge(context.Background(), all, filepath.Join(t.TempDir(), "merged"), MergeOptions{Progress: p})
		})
		count(t, string(head)+": repack", sizes(t, whole), sizes(t, whole), func(p Progress) (*Summary, error) {
			o := RepackOptions{Layout: "blocked", Progress: p}
			return Repack(context.Background(), whole, filepath.Join(t.TempDir(), "repacked"), o)
		})
		for _, form := range []Form{FormBF16, FormF32} {
			count(t, string(head)+": unpack "+string(form), sizes(t, whole), sizes(t, whole),
				func(p Progress) (*Summary, error) {
					o := UnpackOptions{Form: form, Progress: p}
					return Unpack(context.Background(), whole, filepath.Join(t.TempDir(), "unpacked"), o)
				})
		}
		var in int64
		o.Progress = nil
		for i := 1; i <= 2; i++ {
			o.Part, o.Parts = i, 2
			s, err := newPlan(t, path, o).Run(context.Background(), filepath.Join(t.TempDir(), "part"))
			if err != nil {
				t.Fatal(err)
			}
			in += s.BytesIn
		}
		if in != least {
			t.Errorf("%s: the parts read %d bytes together; the tensors have %d", head, in, least)
		}
	}
}

// count runs a command that reads between least and most bytes.
func count(t *testing.T, what string, least, most int64, run func(Progress) (*Summary, error)) {
	t.Helper()
	var done, total int64
	s, err := run(func(_ string, d, n int64) {
		if d < done || total != 0 && n != total {
			t.Errorf("%s: %d of %d after %d of %d", what, d, n, done, total)
		}
		done, total = d, n
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if done != total || total == 0 || total > most {
		t.Errorf("%s: ends at %d of %d bytes; there are %d", what, done, total, most)
	}
	if s.BytesIn < least || s.BytesIn > most {
		t.Errorf("%s: %d bytes read; there are %d to %d", what, s.BytesIn, least, most)
	}
}

func sizes(t *testing.T, patterns ...string) (n int64) {
	t.Helper()
	for _, p := range patterns {
		list, err := filepath.Glob(p)
		if err != nil || len(list) == 0 {
			t.Fatal(p, err)
		}
		for _, path := range list {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			n += info.Size()
		}
	}
	return n
}

// tensorBytes adds up the tensors of a checkpoint.
func tensorBytes(t *testing.T, path string) (n int64) {
	t.Helper()
	for _, x := range newPlan(t, path, plain(packed.Recipe{Quant: QuantNone})).source.Tensors() {
		n += x.Size
	}
	return n
}
