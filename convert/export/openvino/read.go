package openvino

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// Bounds of an .xml file, which holds no tensors: the graph of a hundred layers takes about ten megabytes, with 40
// bytes per element. An element takes more memory than the four bytes that it may have in a file, and attributes are
// compared with each other.
const (
	maxXML        = 64 << 20
	maxElements   = 1 << 20
	maxAttributes = 32 // of an element
	maxDepth      = 8  // of elements in each other
)

// node is an element of XML with its contents.
type node struct {
	name       string
	attributes []attribute
	nodes      []node
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: not a graph that lowpack export writes: %s", pack.ErrCorrupt, fmt.Sprintf(format, args...))
}

// parse reads a file of elements and attributes. Other XML constructs are errors, so that nothing in a file goes
// unnoticed.
func parse(text []byte) (*node, error) {
	p := &parser{decoder: xml.NewDecoder(bytes.NewReader(text))}
	if err := p.all(); err != nil {
		return nil, err
	}
	if len(p.root.nodes) != 1 {
		return nil, corrupt("%d elements around the whole", len(p.root.nodes))
	}
	return &p.root.nodes[0], nil
}

// parser builds a tree from a decoder's output.
type parser struct {
	decoder *xml.Decoder
	root    node
	open    []node // elements not closed yet
	tokens  int
	count   int // of elements
}

func (p *parser) all() error {
	for {
		token, err := p.decoder.RawToken() // names without name spaces
		switch {
		case errors.Is(err, io.EOF) && len(p.open) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return corrupt("it ends within element %q", p.open[len(p.open)-1].name)
		case err != nil:
			return corrupt("%v", err)
		}
		if err := p.token(token); err != nil {
			return err
		}
		p.tokens++
	}
}

func (p *parser) token(token xml.Token) error {
	switch t := token.(type) {
	case xml.StartElement:
		return p.start(t)
	case xml.EndElement:
		return p.end(t)
	case xml.CharData:
		if len(bytes.TrimSpace(t)) == 0 {
			return nil
		}
		return corrupt("text %.40q between elements", t)
	case xml.ProcInst:
		if p.tokens == 0 && t.Target == "xml" {
			return nil
		}
	}
	return corrupt("what is no element, at byte %d", p.decoder.InputOffset())
}

func (p *parser) start(t xml.StartElement) error {
	n := node{name: qualified(t.Name)}
	if p.count++; p.count > maxElements {
		return corrupt("more than %d elements", maxElements)
	}
	if len(t.Attr) > maxAttributes {
		return corrupt("element %q has %d attributes; at most %d are written", n.name, len(t.Attr), maxAttributes)
	}
	for _, a := range t.Attr {
		name := qualified(a.Name)
		if slices.ContainsFunc(n.attributes, func(b attribute) bool { return b.name == name }) {
			return corrupt("element %q has two attributes %q", n.name, name)
		}
		n.attributes = append(n.attributes, attribute{name, a.Value})
	}
	if len(p.open) == maxDepth {
		return corrupt("elements more than %d deep", maxDepth)
	}
	p.open = append(p.open, n)
	return nil
}

func (p *parser) end(t xml.EndElement) error {
	if len(p.open) == 0 || p.open[len(p.open)-1].name != qualified(t.Name) {
		return corrupt("the end of an element %q that is not open", qualified(t.Name))
	}
	last := len(p.open) - 1
	n, to := p.open[last], &p.root
	if p.open = p.open[:last]; last > 0 {
		to = &p.open[last-1]
	}
	to.nodes = append(to.nodes, n)
	return nil
}

func qualified(n xml.Name) string {
	if n.Space == "" {
		return n.Local
	}
	return n.Space + ":" + n.Local
}

// find returns the element at a path of names; nil if there is none.
func (n *node) find(path ...string) *node {
	for _, name := range path {
		i := slices.IndexFunc(n.nodes, func(m node) bool { return m.name == name })
		if i < 0 {
			return nil
		}
		n = &n.nodes[i]
	}
	return n
}

// value returns the value of an attribute; "" if there is none.
func (n *node) value(name string) string {
	for _, a := range n.attributes {
		if a.name == name {
			return a.value
		}
	}
	return ""
}

// equals compares elements, and reports the first difference.
func (n *node) equals(want *node, path string) error {
	path += "/" + n.name
	if name := n.value("name"); name != "" {
		path += " " + name
	}
	switch {
	case n.name != want.name:
		return differs(path, n.name, want.name)
	case !slices.Equal(n.attributes, want.attributes):
		return differs(path, n.attributes, want.attributes)
	}
	for i := range min(len(n.nodes), len(want.nodes)) {
		if err := n.nodes[i].equals(&want.nodes[i], path); err != nil {
			return err
		}
	}
	if len(n.nodes) != len(want.nodes) {
		return differs(path, fmt.Sprintf("%d elements", len(n.nodes)), fmt.Sprintf("%d elements", len(want.nodes)))
	}
	return nil
}

func differs(path string, got, want any) error {
	return fmt.Errorf("%w: %.200s is %.200s; of the packed file it would be %.200s", pack.ErrCorrupt, path,
		fmt.Sprint(got), fmt.Sprint(want))
}

// String is the element as XML.
func (n *node) String() string {
	var b strings.Builder
	n.write(&b)
	return b.String()
}

func (n *node) write(b *strings.Builder) {
	b.WriteString("<" + n.name)
	for _, a := range n.attributes {
		b.WriteString(" " + a.name + `="` + escaped(a.value) + `"`)
	}
	b.WriteString(">")
	for i := range n.nodes {
		n.nodes[i].write(b)
	}
	b.WriteString("</" + n.name + ">")
}
