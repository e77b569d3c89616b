package quantized

import (
	"fmt"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// keys reads one JSON object by key and keeps the first error. An absent key and null are the same.
type keys struct {
	file string
	v    *jsonread.Value
	err  error
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

// integer reads one of −1 to 2^24.
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
