package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/internal/filekind"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// Limits of a configuration. They are far above every published model and keep products and allocations small.
const (
	maxLayers       = 1024
	maxHeads        = 4096
	maxHeadDim      = 4096
	maxPositions    = 1 << 24
	maxRopeTheta    = 1e12
	maxStopTokens   = 64
	maxPatterns     = 1024
	maxPatternBytes = 1024
	maxScaleFactors = 1 << 20
	maxConvWidth    = 64
)

var maxConfigBytes = int(modelfile.Limit("config.json"))

// keys reads one JSON object by key and keeps the first error, so that a family file reads as a list of facts. Absent
// and null keys are equivalent, as in the library that writes these files.
type keys struct {
	file  string
	v     *jsonread.Value
	err   error
	asked *asked
	also  []string // further objects whose keys were merged in
}

func parseKeys(file string, data []byte) (*keys, error) {
	v, err := jsonread.ParsePython(data, maxConfigBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, filekind.Explain(err, data))
	}
	if v.Kind != jsonread.Object {
		return nil, fmt.Errorf("%s: %w: %s where an object is expected", file, pack.ErrCorrupt, v.Kind)
	}
	return &keys{file: file, v: v, asked: &asked{}}, nil
}

func (k *keys) fail(class error, format string, args ...any) {
	if k.err == nil {
		k.err = fmt.Errorf("%s: %w: %s", k.file, class, fmt.Sprintf(format, args...))
	}
}

// get returns the value of a key, nil if absent, and marks the key as read.
func (k *keys) get(name string) *jsonread.Value {
	for _, object := range append(k.also, k.file) {
		k.asked.add(object, name)
	}
	return k.v.Get(name)
}

// known marks keys as known, although they may have no effect in the presence of others.
func (k *keys) known(names ...string) {
	for _, name := range names {
		k.get(name)
	}
}

func (k *keys) has(name string) bool { return k.get(name) != nil }

// mustHave rejects a file that lacks one of these keys, or has null for one.
func (k *keys) mustHave(names ...string) {
	for _, name := range names {
		if !k.has(name) {
			k.fail(pack.ErrCorrupt, "%s is missing", name)
		}
	}
}

// mentions reports whether a key is present, possibly null.
func (k *keys) mentions(name string) bool {
	return k.v != nil && slices.ContainsFunc(k.v.Members, func(m jsonread.Member) bool { return m.Key == name })
}

// override merges in all keys of another object.
func (k *keys) override(other *keys) {
	if other.v == nil {
		return
	}
	k.also = append(k.also, other.file)
	merged := *other.v
	if k.v != nil {
		for _, m := range k.v.Members {
			if !other.mentions(m.Key) {
				merged.Members = append(slices.Clip(merged.Members), m)
			}
		}
	}
	k.v = &merged
}

// aliases gives keys their usual names: pairs of a usual name and the one that the family's files have. A file may have
// both if they agree.
func (k *keys) aliases(pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		name, alias := pairs[i], pairs[i+1]
		a, b := k.get(name), k.get(alias)
		switch {
		case b == nil:
		case a == nil:
			*k = *k.with(name, b)
		case a.Kind != b.Kind || a.Text != b.Text:
			k.fail(pack.ErrUnsupported, "%s is %s, and %s is %s: two names of one number", name, show(a), alias,
				show(b))
		}
	}
}

// sub returns the object under a key; an absent one has no keys. Its errors must be merged back with k.take.
func (k *keys) sub(name string) *keys {
	v := k.get(name)
	if v != nil && v.Kind != jsonread.Object {
		k.fail(pack.ErrCorrupt, "%s is %s, not an object", name, v.Kind)
		v = nil
	}
	return &keys{file: k.file + ": " + name, v: v, asked: k.asked}
}

func (k *keys) take(sub *keys) {
	if k.err == nil {
		k.err = sub.err
	}
}

// count reads a required integer in 1..limit.
func (k *keys) count(name string, limit int) int {
	if !k.has(name) {
		k.fail(pack.ErrCorrupt, "%s is missing", name)
		return 1
	}
	return k.countOr(name, limit, 1)
}

// countOr reads an optional integer in 1..limit.
func (k *keys) countOr(name string, limit, absent int) int {
	return k.integer(name, 1, limit, absent)
}

// natural reads an optional integer in 0..limit.
func (k *keys) natural(name string, limit, absent int) int {
	return k.integer(name, 0, limit, absent)
}

func (k *keys) integer(name string, least, limit, absent int) int {
	v := k.get(name)
	if v == nil {
		return absent
	}
	n, ok := v.Int()
	switch {
	case !ok:
		k.fail(pack.ErrCorrupt, "%s is %s, not an integer", name, show(v))
	case n < int64(least):
		k.fail(pack.ErrCorrupt, "%s is %d, must be at least %d", name, n, least)
	case n > int64(limit):
		k.fail(pack.ErrLimit, "%s is %d, more than %d", name, n, limit)
	default:
		return int(n)
	}
	return 1
}

// positive reads an optional number in (0, limit].
func (k *keys) positive(name string, limit, absent float64) float64 {
	v := k.get(name)
	if v == nil {
		return absent
	}
	f, ok := v.Float()
	switch {
	case !ok:
		k.fail(pack.ErrCorrupt, "%s is %s, not a finite number", name, show(v))
	case f <= 0 || float32(f) == 0:
		k.fail(pack.ErrCorrupt, "%s is %v, must be greater than 0", name, f)
	case f > limit:
		k.fail(pack.ErrLimit, "%s is %v, more than %v", name, f, limit)
	default:
		return f
	}
	return 1
}

func (k *keys) flag(name string, absent bool) bool {
	v := k.get(name)
	if v == nil {
		return absent
	}
	if v.Kind != jsonread.Bool {
		k.fail(pack.ErrCorrupt, "%s is %s, not true or false", name, v.Kind)
	}
	return v.Bool
}

func (k *keys) text(name, absent string) string {
	v := k.get(name)
	if v == nil {
		return absent
	}
	s, ok := v.Str()
	if !ok {
		k.fail(pack.ErrCorrupt, "%s is %s, not a string", name, v.Kind)
	}
	return s
}

// list reads an optional list.
func (k *keys) list(name string) []jsonread.Value {
	v := k.get(name)
	if v == nil {
		return nil
	}
	if v.Kind != jsonread.Array {
		k.fail(pack.ErrCorrupt, "%s is %s, not a list", name, v.Kind)
	}
	return v.Items
}

// texts reads an optional list of strings.
func (k *keys) texts(name string) (out []string) {
	for i, v := range k.list(name) {
		s, ok := v.Str()
		if !ok {
			k.fail(pack.ErrCorrupt, "%s[%d] is %s, not a string", name, i, v.Kind)
		}
		out = append(out, s)
	}
	return out
}

// naturals reads an optional list of integers in 0..limit.
func (k *keys) naturals(name string, limit int) (out []int) {
	for i, v := range k.list(name) {
		n, ok := v.Int()
		if !ok || n < 0 || n > int64(limit) {
			k.fail(pack.ErrCorrupt, "%s[%d] is %s, not an integer from 0 to %d", name, i, show(&v), limit)
		}
		out = append(out, int(n))
	}
	return out
}

// numbers reads a list of n numbers in (0, limit].
func (k *keys) numbers(name string, n int, limit float64) []float64 {
	v := k.get(name)
	if v == nil || v.Kind != jsonread.Array || len(v.Items) != n {
		k.fail(pack.ErrCorrupt, "%s is missing, or no list of %d numbers", name, n)
		return nil
	}
	out := make([]float64, n)
	for i := range out {
		f, ok := v.Items[i].Float()
		if !ok || !(f > 0 && f <= limit) || float32(f) == 0 {
			k.fail(pack.ErrCorrupt, "%s[%d] is %s, not a number above 0, at most %v", name, i, show(&v.Items[i]), limit)
		}
		out[i] = f
	}
	return out
}

// tokens reads token ids below vocab: one integer, a list of them, or nothing. Some files use −1 for none.
func (k *keys) tokens(name string, vocab int) []int {
	v := k.get(name)
	if v == nil {
		return nil
	}
	items := []jsonread.Value{*v}
	if v.Kind == jsonread.Array {
		items = v.Items
	}
	if len(items) > maxStopTokens {
		k.fail(pack.ErrLimit, "%s lists %d tokens, more than %d", name, len(items), maxStopTokens)
		return nil
	}
	var out []int
	for i := range items {
		n, ok := items[i].Int()
		if ok && n == -1 {
			continue
		}
		if !ok || n < 0 || n >= int64(vocab) {
			k.fail(pack.ErrCorrupt, "%s: %s is not a token id in 0..%d", name, show(&items[i]), vocab-1)
			return nil
		}
		out = append(out, int(n))
	}
	return out
}

// refuse fails when a key has a value other than the wanted one or null.
func (k *keys) refuse(name string, want bool, why string) {
	if k.flag(name, want) != want {
		k.fail(pack.ErrUnsupported, "%s is %v: %s", name, !want, why)
	}
}

func show(v *jsonread.Value) string {
	if word, ok := v.NonFinite(); ok {
		return word
	}
	if v.Kind == jsonread.Number || v.Kind == jsonread.String {
		return fmt.Sprintf("%.40q", v.Text)
	}
	return v.Kind.String()
}

func list(words []string) string { return strings.Join(words, ", ") }
