package quantized

import (
	"fmt"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// keys reads a JSON object by key and keeps the first error. null counts as absent.
type keys struct {
	file   string
	v      *jsonread.Value
	model  *jsonread.Value // all of config.json
	config []byte          // its text
	files  Files
	err    error
	told   []string // details for the user
	steps  int      // of patterns, see compile
}

func (k *keys) detail(format string, args ...any) {
	k.told = append(k.told, fmt.Sprintf("%s: %s", k.file, fmt.Sprintf(format, args...)))
}

// each calls read with every member of the object under a key, after applying the rules of a kind.
func (k *keys) each(name, kind string, read func(key string, s *keys)) {
	v := k.sub(name).v
	if v == nil {
		return
	}
	for i := range v.Members {
		m := &v.Members[i]
		s := &keys{file: k.file + ": " + name + ": " + m.Key, v: &m.Value, steps: k.steps}
		if m.Value.Kind != jsonread.Object {
			s.fail(pack.ErrCorrupt, "%s where an object is expected", m.Value.Kind)
		}
		s.follow(kind)
		read(m.Key, s)
		k.take(s)
	}
}

// agree rejects synonyms with different values.
func (k *keys) agree(names ...string) {
	first := ""
	for _, name := range names {
		v := k.v.Get(name)
		switch {
		case v == nil:
		case first == "":
			first = name
		case canonical(v) != canonical(k.v.Get(first)):
			k.fail(pack.ErrCorrupt, "%s is %s, but its synonym %s is %s; correct the wrong one",
				first, show(k.v.Get(first)), name, show(v))
		}
	}
}

// first returns the first of some keys that is present; the last one if none is.
func (k *keys) first(names ...string) string {
	for _, name := range names {
		if k.v.Get(name) != nil {
			return name
		}
	}
	return names[len(names)-1]
}

func (k *keys) fail(class error, format string, args ...any) {
	if k.err == nil {
		k.err = fmt.Errorf("%s: %w: %s", k.file, class, fmt.Sprintf(format, args...))
	}
}

func (k *keys) take(sub *keys) {
	if k.err == nil {
		k.err = sub.err
	}
	k.told, k.steps = append(k.told, sub.told...), max(k.steps, sub.steps)
}

func (k *keys) sub(name string) *keys {
	v := k.v.Get(name)
	if v != nil && v.Kind != jsonread.Object {
		k.fail(pack.ErrCorrupt, "%s is %s, not an object", name, v.Kind)
		v = nil
	}
	return &keys{file: k.file + ": " + name, v: v}
}

func (k *keys) text(name, absent string) string {
	v := k.v.Get(name)
	if v == nil {
		return absent
	}
	s, ok := v.Str()
	if !ok {
		k.fail(pack.ErrCorrupt, "%s is %s, not a string", name, v.Kind)
	}
	return s
}

// integer reads an integer from −1 to 2^24.
func (k *keys) integer(name string, absent int) int {
	v := k.v.Get(name)
	if v == nil {
		return absent
	}
	n, ok := v.Int()
	if !ok || n < -1 || n > 1<<24 {
		k.fail(pack.ErrCorrupt, "%s is not an integer from -1 to %d", name, 1<<24)
		return absent
	}
	return int(n)
}

func (k *keys) flag(name string, absent bool) bool {
	v := k.v.Get(name)
	if v == nil {
		return absent
	}
	if v.Kind != jsonread.Bool {
		k.fail(pack.ErrCorrupt, "%s is %s, not true or false", name, v.Kind)
	}
	return v.Bool
}

func (k *keys) texts(name string) (out []string) {
	v := k.v.Get(name)
	if v == nil || v.Kind != jsonread.Array || len(v.Items) > 1<<16 {
		k.fail(pack.ErrCorrupt, "%s is missing, or not a list of at most %d strings", name, 1<<16)
		return nil
	}
	for i := range v.Items {
		s, ok := v.Items[i].Str()
		if !ok {
			k.fail(pack.ErrCorrupt, "%s[%d] is %s, not a string", name, i, v.Items[i].Kind)
		}
		out = append(out, s)
	}
	return out
}
