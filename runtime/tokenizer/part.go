package tokenizer

import (
	"fmt"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer/internal/pattern"
)

// part reads one typed object of tokenizer.json, and keeps the first error. done rejects every field that was not read:
// an unsupported field may change the tokens.
type part struct {
	where string // "pre_tokenizer", "decoder" …
	kind  string
	v     *jsonread.Value
	used  map[string]bool
	err   error
}

func newPart(where string, v *jsonread.Value) *part {
	p := &part{where: where, v: v, used: map[string]bool{}}
	if v.Kind != jsonread.Object {
		p.fail(pack.ErrCorrupt, "%s where an object is expected", v.Kind)
	}
	p.kind = p.text("type")
	return p
}

func (p *part) fail(class error, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %s %s: %s", class, p.where, p.kind, fmt.Sprintf(format, args...))
	}
}

// get returns a field; nil when it is absent or null.
func (p *part) get(key string) *jsonread.Value {
	p.used[key] = true
	return p.v.Get(key)
}

func (p *part) text(key string) string {
	v := p.get(key)
	s, ok := v.Str()
	if v != nil && !ok {
		p.fail(pack.ErrCorrupt, "%s is %s, not a string", key, v.Kind)
	}
	return s
}

func (p *part) flag(key string, absent bool) bool {
	v := p.get(key)
	if v == nil {
		return absent
	}
	if v.Kind != jsonread.Bool {
		p.fail(pack.ErrCorrupt, "%s is %s, not true or false", key, v.Kind)
	}
	return v.Bool
}

func (p *part) count(key string) int {
	v := p.get(key)
	if v == nil {
		return 0
	}
	n, ok := v.Int()
	if !ok || n < 0 || n > maxTokenBytes {
		p.fail(pack.ErrCorrupt, "%s is not a number from 0 to %d", key, maxTokenBytes)
		return 0
	}
	return int(n)
}

// list returns the elements of a field that is a list, at most limit.
func (p *part) list(key string, limit int) []jsonread.Value {
	v := p.get(key)
	switch {
	case v == nil:
		return nil
	case v.Kind != jsonread.Array:
		p.fail(pack.ErrCorrupt, "%s is %s, not a list", key, v.Kind)
	case len(v.Items) > limit:
		p.fail(pack.ErrLimit, "%s has %d elements, more than %d", key, len(v.Items), limit)
	default:
		return v.Items
	}
	return nil
}

// ignore marks fields that have no effect here: offsets, for example, which are not computed.
func (p *part) ignore(keys ...string) {
	for _, k := range keys {
		p.used[k] = true
	}
}

// done returns the first error, and rejects unread fields.
func (p *part) done() error {
	for i := range p.v.Members {
		if m := &p.v.Members[i]; !p.used[m.Key] && m.Value.Kind != jsonread.Null {
			p.fail(pack.ErrUnsupported, "the field %.40q is not known", m.Key)
		}
	}
	return p.err
}

// unknown rejects the type of a part.
func (p *part) unknown(supported string) error {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %s of type %.40q; supported are %s", pack.ErrUnsupported, p.where, p.kind, supported)
	}
	return p.err
}

// maxParts bounds the number of normalizers, pre-tokenizers or decoders, nested ones included.
const maxParts = 64

// flatten resolves Sequence parts: it calls each for every part that is not a Sequence, in order.
func flatten(where, listKey string, v *jsonread.Value, each func(p *part) error) error {
	budget := maxParts
	return flattenInto(where, listKey, v, &budget, each)
}

func flattenInto(where, listKey string, v *jsonread.Value, budget *int, each func(p *part) error) error {
	if v == nil || v.Kind == jsonread.Null {
		return nil
	}
	if *budget--; *budget < 0 {
		return fmt.Errorf("%w: %s has more than %d parts", pack.ErrLimit, where, maxParts)
	}
	p := newPart(where, v)
	if p.err != nil {
		return p.err
	}
	if p.kind != "Sequence" {
		return each(p)
	}
	items := p.list(listKey, maxParts)
	if err := p.done(); err != nil {
		return err
	}
	for i := range items {
		if err := flattenInto(where, listKey, &items[i], budget, each); err != nil {
			return err
		}
	}
	return nil
}

// finding reads a pattern: {"String": …} or {"Regex": …}.
func (p *part) finding(key string) finding {
	v := p.get(key)
	if v == nil {
		p.fail(pack.ErrCorrupt, "%s is missing", key)
		return literal(" ")
	}
	if s, ok := v.Get("String").Str(); ok && s != "" {
		return literal(s)
	}
	s, ok := v.Get("Regex").Str()
	if !ok {
		p.fail(pack.ErrCorrupt, "%s is neither a String that is not empty nor a Regex", key)
		return literal(" ")
	}
	re, err := pattern.Compile(s)
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("%s %s: %w", p.where, p.kind, err)
	}
	return re
}
