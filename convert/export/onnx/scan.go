package onnx

import (
	"fmt"
	"maps"
)

// scan is a loop whose body gets one slice of each input per iteration, and adds to a total.
type scan struct {
	name   string
	from   []string // values that are cut into slices
	axes   []int64
	slices []value // in the body
}

func newScan(name string) *scan { return &scan{name: name} }

// take slices a value along an axis. dims are the other dimensions.
func (s *scan) take(from string, k kind, axis int64, dims ...any) string {
	v := value{fmt.Sprintf("%s/%d", s.name, len(s.from)), k, dims}
	s.from, s.axes, s.slices = append(s.from, from), append(s.axes, axis), append(s.slices, v)
	return v.name
}

// scan adds the loop: body computes the next total from the previous one, which is initially start.
func (d *decoder) scan(s *scan, start string, dims []any, out string, body func(total, next string)) string {
	total, next := value{s.name + "/total", float32Kind, dims}, value{s.name + "/next", float32Kind, dims}
	g := d.body(append([]value{total}, s.slices...), []value{next}, func() { body(total.name, next.name) })
	return d.op("Scan", append([]string{start}, s.from...), out,
		attribute{"body", g}, attribute{"num_scan_inputs", int64(len(s.from))}, attribute{"scan_input_axes", s.axes})
}

// body collects the nodes of add in a subgraph, which sees the values of the enclosing graph, but not vice versa.
func (d *decoder) body(in, out []value, add func()) *graph {
	nodes, products := d.nodes, d.products
	d.nodes, d.products = nil, maps.Clone(products)
	add()
	g := &graph{nodes: d.nodes, inputs: in, outputs: out}
	d.nodes, d.products = nodes, products
	return g
}
