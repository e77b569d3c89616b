package batch

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// Limits of an input.
const (
	MaxRequests = 1 << 22 // each takes some 40 bytes of memory until the end
	maxFaults   = 100     // that are listed
	maxGroups   = 64      // the last one has the requests of all further models
)

// InputError lists what is wrong with an input, by line.
type InputError struct {
	Faults []Fault // the first ones
	More   int     // further ones
}

func (e *InputError) Error() string {
	list := make([]string, len(e.Faults))
	for i := range e.Faults {
		list[i] = e.Faults[i].Error()
	}
	if e.More > 0 {
		list = append(list, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(list, "\n")
}

// Unwrap makes it a pack.ErrCorrupt.
func (e *InputError) Unwrap() error { return pack.ErrCorrupt }

// checked is an input that was checked.
type checked struct {
	requests int
	digest   digest
	groups   int     // of requests that are answered together
	groupOf  []uint8 // by request; nil = there is one group
}

// group returns the group of request i.
func (c *checked) group(i int) int {
	if c.groupOf == nil {
		return 0
	}
	return int(c.groupOf[i])
}

// digest is a SHA-256, in hex as text.
type digest [sha256.Size]byte

// MarshalText writes hex.
func (d digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText reads what MarshalText writes.
func (d *digest) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(d)) {
		return fmt.Errorf("%w: a digest of %d characters", pack.ErrCorrupt, len(text))
	}
	_, err := hex.Decode(d[:], text)
	return err
}

// named is the place of a custom_id: equal digests stand for equal ids.
type named struct {
	id   [16]byte // the start of a SHA-256
	line uint32
}

// checker collects what concerns several lines.
type checker struct {
	o       *Options
	ids     []named
	groups  map[digest]uint8 // by the model, as JSON
	groupOf []uint8
	InputError
}

// checkInput opens the requests of a file and checks them.
func checkInput(in *inputFile, o *Options) (checked, error) {
	requests, err := newSource(in)
	if err != nil {
		return checked{}, err
	}
	defer requests.close()
	return check(requests, o)
}

// check reads the input once, in memory of some bytes per request.
func check(in source, o *Options) (checked, error) {
	c := checker{o: o, groups: map[digest]uint8{}}
	n := 0
	for ; ; n++ {
		text, err := in.next()
		if err == io.EOF {
			break
		}
		if err != nil && !isFault(err) {
			return checked{}, err
		}
		if n == MaxRequests {
			return checked{}, &InputError{Faults: []Fault{{Code: TooManyRequests,
				Message: fmt.Sprintf("a file has at most %d requests; split it", MaxRequests)}}}
		}
		c.take(n, text, err)
	}
	c.duplicates()
	if n == 0 {
		c.fault(-1, &Fault{Code: EmptyFile, Message: "the file has no requests"})
	}
	if len(c.Faults) > 0 {
		slices.SortStableFunc(c.Faults, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
		return checked{}, &c.InputError
	}
	return checked{n, in.digest(), max(1, len(c.groups)), c.groupOf}, nil
}

// take checks a line, or an error that stands for it.
func (c *checker) take(n int, text []byte, err error) {
	var f *Fault
	var q *Request
	if !errors.As(err, &f) {
		q, f = c.o.parse(text)
	}
	if f == nil && c.o.ByModel {
		f = c.join(q)
	}
	if f != nil {
		c.fault(n, f)
		return
	}
	sum := sha256.Sum256([]byte(q.CustomID))
	c.ids = append(c.ids, named{[16]byte(sum[:16]), uint32(n)})
}

// join adds a request to the group of those that name the same model.
func (c *checker) join(q *Request) *Fault {
	fields, err := jsonread.Fields(q.Body)
	if err != nil { // the line was read before
		return &Fault{Code: InvalidJSON, Message: place(err)}
	}
	model := digest(sha256.Sum256(fields["model"]))
	group, ok := c.groups[model]
	if !ok {
		group = uint8(min(len(c.groups), maxGroups-1))
		if len(c.groups) < maxGroups {
			c.groups[model] = group
		}
	}
	c.groupOf = append(c.groupOf, group)
	return nil
}

// duplicates finds lines with the custom_id of an earlier one.
func (c *checker) duplicates() {
	slices.SortFunc(c.ids, func(a, b named) int {
		return cmp.Or(bytes.Compare(a.id[:], b.id[:]), cmp.Compare(a.line, b.line))
	})
	first := 0
	for i := 1; i < len(c.ids); i++ {
		if c.ids[i].id != c.ids[first].id {
			first = i
			continue
		}
		c.fault(int(c.ids[i].line), &Fault{Code: DuplicateID, Param: "custom_id", Message: fmt.Sprintf(
			"the custom_id of line %d again: must be unique", c.ids[first].line+1)})
	}
}

// fault notes an error of line n, from 0; −1 = of the whole file.
func (c *checker) fault(n int, f *Fault) {
	if len(c.Faults) == maxFaults {
		c.More++
		return
	}
	c.Faults = append(c.Faults, *f)
	c.Faults[len(c.Faults)-1].Line = n + 1
}
