package signing

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// node is a JSON value of a signature, and where it stands. The first fault of any node of a tree is kept in err.
type node struct {
	*jsonread.Value
	path string
	err  *error
}

// parse reads a JSON text of at most MaxSize bytes.
func parse(data []byte, what string, err *error) node {
	v, failed := jsonread.Parse(data, MaxSize)
	if failed != nil {
		*err = fmt.Errorf("%s: %w", what, failed)
	}
	return node{v, what, err}
}

func (n node) fail(class error, format string, args ...any) {
	if *n.err == nil {
		*n.err = fmt.Errorf("%w: %s: "+format, append([]any{class, n.path}, args...)...)
	}
}

// object refuses anything but an object; given names, also one that has other fields.
func (n node) object(known ...string) node {
	switch {
	case *n.err != nil:
	case n.Value == nil || n.Kind != jsonread.Object:
		n.fail(pack.ErrCorrupt, "want an object")
	case len(known) > 0:
		for i := range n.Members {
			m := &n.Members[i]
			if m.Value.Kind != jsonread.Null && !slices.Contains(known, m.Key) {
				n.fail(pack.ErrUnsupported, "unknown field %.100q", m.Key)
			}
		}
	}
	return n
}

func (n node) get(key string) node {
	return node{n.Get(key), n.path + "." + key, n.err}
}

// list returns the elements of an array of least to most elements.
func (n node) list(least, most int) (list []node) {
	switch {
	case *n.err != nil:
	case n.Value == nil || n.Kind != jsonread.Array || len(n.Items) < least:
		n.fail(pack.ErrCorrupt, "want an array of at least %d", least)
	case len(n.Items) > most:
		n.fail(pack.ErrLimit, "%d elements, more than %d", len(n.Items), most)
	default:
		for i := range n.Items {
			list = append(list, node{&n.Items[i], fmt.Sprintf("%s[%d]", n.path, i), n.err})
		}
	}
	return list
}

func (n node) text() string {
	s, ok := n.Str()
	if !ok {
		n.fail(pack.ErrCorrupt, "want a string")
	}
	return s
}

// is refuses any text but one.
func (n node) is(want string) {
	if got := n.text(); got != want {
		n.fail(pack.ErrUnsupported, "%.100q; want %q", got, want)
	}
}

// bytes reads base64, of which each sequence of bytes has one text.
func (n node) bytes() []byte {
	text := n.text()
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(text) != base64.StdEncoding.EncodedLen(len(data)) { // line breaks are skipped
		n.fail(pack.ErrCorrupt, "not base64")
	}
	return data
}

// sha256 reads a digest in hex.
func (n node) sha256() (digest [32]byte) {
	data, err := hex.DecodeString(n.text())
	if err != nil || copy(digest[:], data) != len(data) || len(data) != len(digest) {
		n.fail(pack.ErrCorrupt, "not a SHA-256 in hex")
	}
	return digest
}
