package jinja

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestCallDepth: macros and recursive loops may be maxCalls deep, and no deeper: a deeper one is refused by that limit
// and by no other, and what has returned no longer counts.
func TestCallDepth(t *testing.T) {
	macro := "{%% macro f(n) %%}{%% if n > 1 %%}{{ f(n - 1) }}{%% endif %%}x{%% endmacro %%}"
	loop := "{%% set n = namespace(left=%d) %%}{%% for x in [0] recursive %%}x{%% set n.left = n.left - 1 %%}{%% if " +
		"n.left >= 0 %%}{{ loop([0]) }}{%% endif %%}{%% endfor %%}"
	for _, c := range []struct {
		source string
		want   int // characters; 0: refused
	}{
		{fmt.Sprintf(macro+"{{ f(%d) }}", maxCalls), maxCalls},
		{fmt.Sprintf(macro+"{{ f(%d) }}", maxCalls+1), 0},
		{fmt.Sprintf(macro+"{%% for i in range(3) %%}{{ f(%d) }}{%% endfor %%}", maxCalls), 3 * maxCalls},
		{fmt.Sprintf(loop, maxCalls), maxCalls + 1},
		{fmt.Sprintf(loop, maxCalls+1), 0},
	} {
		text, err := render(c.source, &Dict{})
		if c.want > 0 && (err != nil || len(text) != c.want) {
			t.Errorf("%s: %d characters, %v, want %d", c.source, len(text), err, c.want)
		}
		want := fmt.Sprintf("more than %d calls inside each other", maxCalls)
		if c.want == 0 && (!errors.Is(err, pack.ErrLimit) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v does not say %q", c.source, err, want)
		}
	}
}
