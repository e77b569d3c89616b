package manual

import "testing"

func TestFold(t *testing.T) {
	const text = "Words of a\nparagraph.\n\n  lowpack example with a long line   # as it is\n\nFlags:\n  --name " +
		"FILE  what it does with a name\n  --x          short\n"
	want := "Words of a paragraph.\n\n  lowpack example with a long line   # as it is\n\nFlags:\n  --name " +
		"FILE\n      what it does with\n      a name\n  --x\n      short\n"
	if got := Fit(text, 23); got != want {
		t.Errorf("%s", got)
	}
	want = "Words of a paragraph.\n\n  lowpack example with a long line   # as it is\n\nFlags:\n  --name FILE  what " +
		"it does with a name\n  --x          short\n"
	if got := Fit(text, 80); got != want {
		t.Errorf("%s", got)
	}
}

func TestRoff(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`a-b`, `a\-b`}, {`.dot`, `\&.dot`}, {`it's`, `it\(aqs`}, {`\n`, `\en`}, {"→ é", `\[u2192] \[u00E9]`},
		{"a `B` ~ ^",
			`a \(gaB\(ga \(ti \(ha`},
	} {
		if got := roff(c.text); got != c.want {
			t.Errorf("%q: %q, %q expected", c.text, got, c.want)
		}
	}
}
