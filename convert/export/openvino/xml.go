package openvino

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// irVersion is the version of the IR format.
const irVersion = "11"

// writeXML writes the graph as an .xml file. Ports have no dimensions: runtimes infer them.
func (g *graph) writeXML(to io.Writer) error {
	w := bufio.NewWriter(to)
	fmt.Fprintf(w, "<?xml version=\"1.0\"?>\n<net name=\"Model0\" version=%q>\n<layers>\n", irVersion)
	for id := range g.layers {
		g.layers[id].write(w, id)
	}
	w.WriteString("</layers>\n<edges>\n")
	for id, l := range g.layers {
		for port, v := range l.in {
			fmt.Fprintf(w, "<edge from-layer=\"%d\" from-port=\"%d\" to-layer=\"%d\" to-port=\"%d\"/>\n", v.layer,
				v.port, id, port)
		}
	}
	w.WriteString("</edges>\n")
	writeFields(w, "rt_info", g.info)
	w.WriteString("</net>\n")
	return w.Flush()
}

func (l *layer) write(w *bufio.Writer, id int) {
	fmt.Fprintf(w, "<layer id=\"%d\" name=\"%s\" type=\"%s\" version=\"%s\">", id, escaped(l.name), l.op, opset(l.op))
	if len(l.data) > 0 {
		w.WriteString("<data")
		for _, a := range l.data {
			fmt.Fprintf(w, " %s=\"%s\"", a.name, escaped(a.value))
		}
		w.WriteString("/>")
	}
	if l.decompression {
		w.WriteString(`<rt_info><attribute name="decompression" version="0"/></rt_info>`)
	}
	if len(l.in) > 0 {
		w.WriteString("<input>")
		for port := range l.in {
			fmt.Fprintf(w, "<port id=\"%d\"/>", port)
		}
		w.WriteString("</input>")
	}
	if len(l.out) > 0 {
		w.WriteString("<output>")
		for i, o := range l.out {
			fmt.Fprintf(w, "<port id=\"%d\" precision=\"%s\"", len(l.in)+i, o.element.precision())
			if o.name != "" {
				fmt.Fprintf(w, " names=\"%s\"", escaped(o.name))
			}
			w.WriteString("/>")
		}
		w.WriteString("</output>")
	}
	w.WriteString("</layer>\n")
}

// writeFields writes an element of rt_info.
func writeFields(w *bufio.Writer, name string, fields []field) {
	fmt.Fprintf(w, "<%s>\n", name)
	for _, f := range fields {
		if f.fields != nil {
			writeFields(w, f.name, f.fields)
		} else {
			fmt.Fprintf(w, "<%s value=\"%s\"/>\n", f.name, escaped(f.value))
		}
	}
	fmt.Fprintf(w, "</%s>\n", name)
}

// escaped is a text as the value of an attribute.
func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder never fails
	return b.String()
}
