package quantized_test

import (
	"strings"
	"testing"
)

// altered is a sound configuration with its tensors, of which something is changed.
type altered struct {
	config, old, now string // old = "": the configuration stays
	change           func(files)
	want             string // in the error; "" = accepted
}

// check reads the weights and holds what comes of it against what is wanted.
func (c altered) check(t *testing.T) {
	t.Helper()
	f, config := sound(c.config), c.config
	c.change(f)
	if c.old != "" {
		if config = strings.ReplaceAll(c.config, c.old, c.now); config == c.config {
			t.Fatalf("%s is not in the configuration", c.old)
		}
	}
	found, err := f.readAll(config)
	if c.want == "" && (err != nil || !found) {
		t.Errorf("%s: %v", config, err)
	}
	if c.want != "" && !wellSaid(err, c.want) {
		t.Errorf("%s: %v, want %q", config, err, c.want)
	}
}
