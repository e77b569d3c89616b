package tokenizer

import (
	"strings"
	"testing"
)

// TestRuleFaults: batches are looked up concurrently; the reported error is the one of the smallest rank, and ranks
// count over all batches.
func TestRuleFaults(t *testing.T) {
	v := newVocab(4, 16)
	for id, token := range []string{"a", "b", "ab"} {
		if err := v.add([]byte(token), int64(id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.index(); err != nil {
		t.Fatal(err)
	}
	const n = 3*rulesPerBatch + 7
	for _, c := range []struct {
		bad  map[int]string
		want string
	}{
		{nil, ""},
		{map[int]string{n - 1: "b a", 2 * rulesPerBatch: "b b", 2*rulesPerBatch + 1: "a a"},
			"merge 8192 of \"b\" and \"b\""},
		{map[int]string{5: "b a", n - 1: "a"}, "merge 5 of"},
		{map[int]string{rulesPerBatch: "a b c", n - 1: "b a"}, "merge 4096, \"a b c\", is not two tokens"},
	} {
		r := newRuleReader(v, false)
		var err error
		for i := 0; i < n && err == nil; i++ {
			line, bad := c.bad[i]
			if !bad {
				line = "a b"
			}
			err = r.addLine([]byte(line))
		}
		var table *merges
		if err == nil {
			table, err = r.finish()
		}
		if c.want == "" {
			if err != nil {
				t.Fatal(err)
			}
			if rank, id := table.rank(0, 1); rank != n-1 || id != 2 { // the last rule counts
				t.Errorf("rank %d, id %d", rank, id)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.bad, err, c.want)
		}
	}
}
