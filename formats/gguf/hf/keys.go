package hf

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/pack"
)

// keys reads keys and keeps the first error. A name that starts with "." is prefixed with the architecture.
type keys struct {
	h    *gguf.Header
	arch string
	err  error
}

func (k *keys) fail(class error, format string, args ...any) {
	if k.err == nil {
		k.err = fmt.Errorf("%w: %s", class, fmt.Sprintf(format, args...))
	}
}

func (k *keys) name(key string) string {
	if strings.HasPrefix(key, ".") {
		return k.arch + key
	}
	return key
}

func (k *keys) get(key string) (gguf.Value, bool) { return k.h.Get(k.name(key)) }

// is reports whether a key is there with the wanted kind of value, and fails if it is there with another one.
func (k *keys) is(key string, there, ok bool, want string) bool {
	if there && !ok {
		k.fail(pack.ErrCorrupt, "key %q is not %s", k.name(key), want)
	}
	return there && ok
}

// count reads an integer ≥ 0. In a list, which some architectures have with one element per layer, all elements must be
// equal.
func (k *keys) count(key string) (int64, bool) {
	v, there := k.get(key)
	n, ok := v.Int()
	if list, isList := v.Ints(); isList && len(list) > 0 {
		n, ok = list[0], true
		for _, x := range list {
			if x != n {
				k.fail(pack.ErrUnsupported, "key %q differs between layers (%d and %d)", k.name(key), n, x)
			}
		}
	}
	return n, k.is(key, there, ok && n >= 0, "an integer of at least 0")
}

// must is count for a required key.
func (k *keys) must(key string) int64 {
	n, ok := k.count(key)
	if !ok {
		k.fail(pack.ErrCorrupt, "key %q is missing", k.name(key))
	}
	return n
}

// furtherBlocks, after the name of the architecture, counts the last blocks, which predict further tokens.
const furtherBlocks = ".nextn_predict_layers"

// mostBlocks bounds the blocks, and with them what becomes of a list of numbers for each.
const mostBlocks = 1 << 16

// layers returns the number of blocks, without those behind them that predict further tokens; 0 if it fails.
func (k *keys) layers() int64 {
	n := k.must(".block_count")
	more, _ := k.count(furtherBlocks)
	switch {
	case n > mostBlocks:
		k.fail(pack.ErrLimit, "%d blocks, more than %d", n, mostBlocks)
		return 0
	case more >= n && more > 0:
		k.fail(pack.ErrCorrupt, "key %q is %d, of %d blocks", k.name(furtherBlocks), more, n)
		return 0
	}
	return n - more
}

// number reads a finite number of any kind.
func (k *keys) number(key string) (decimal, bool) {
	v, there := k.get(key)
	f, ok := v.Float()
	ok = k.is(key, there, ok && f-f == 0, "a finite number")
	return decimal(f), ok
}

// decimal is a float32 whose JSON is the shortest decimal that rounds to it.
type decimal float32

func (d decimal) MarshalJSON() ([]byte, error) {
	text := strconv.FormatFloat(float64(d), 'g', -1, 32)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return []byte(text), nil
}

func (k *keys) flag(key string, absent bool) bool {
	v, there := k.get(key)
	b, ok := v.Bool()
	if !k.is(key, there, ok, "a bool") {
		return absent
	}
	return b
}

func (k *keys) text(key string) string {
	v, there := k.get(key)
	s, ok := v.Text()
	k.is(key, there, ok, "a string")
	return s
}
