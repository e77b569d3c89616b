package checkpoint

import (
	"cmp"
	"slices"

	"github.com/lowpack/lowpack/formats/quantized"
)

// floatSuffix is appended to the name of a weight file for the virtual file of its weights that become floats.
const floatSuffix = " (dequantized)"

// values is a tensor whose floats are computed from stored tensors.
type values struct {
	of     *quantized.Values
	stored int64 // bytes
	read   quantized.Read
}

// dequantize puts weights that are stored in fewer bits, but not as integers times a scale, in the place of the tensors
// that hold them: the floats that the packer's own dequantization gives (quantized.Values). A config.json that is not
// understood changes nothing here; whoever asks for codes gets the error.
func (c *Checkpoint) dequantize() error {
	if c.Config() == nil {
		return nil
	}
	scheme, err := quantized.Parse(c.Config(), c)
	if err != nil || scheme == nil {
		return nil
	}
	var names []string
	for _, t := range c.tensors {
		names = append(names, t.Name)
	}
	found, err := scheme.Values(names, c.header, c.readStored)
	if err != nil || len(found) == 0 {
		return err
	}
	c.stored, c.storedIndex = c.tensors, c.index
	c.replace(found)
	return nil
}

// header returns the header of a stored tensor.
func (c *Checkpoint) header(name string) (quantized.Tensor, bool) {
	t, ok := c.lookupStored(name)
	return quantized.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape}, ok
}

// readStored reads a stored tensor.
func (c *Checkpoint) readStored(name string, b []byte, off int64) error {
	t, _ := c.lookupStored(name)
	return c.ReadAt(t, b, off)
}

func (c *Checkpoint) lookupStored(name string) (Tensor, bool) {
	if c.stored == nil {
		return c.Lookup(name)
	}
	i, ok := c.storedIndex[name]
	if !ok {
		return Tensor{}, false
	}
	return c.stored[i], true
}

// replace lists the found weights, and not the tensors that hold them. A virtual file for each weight file has them in
// the order of their elements, which so are read from front to back.
func (c *Checkpoint) replace(found map[string]*quantized.Values) {
	hidden, ignored := map[string]bool{}, 0
	weights := map[string]*quantized.Values{} // by the tensor with their elements
	for _, v := range found {
		weights[v.Elements] = v
		for _, name := range slices.Concat(v.Tensors, v.Ignored) {
			hidden[name] = true
		}
		ignored += len(v.Ignored)
	}
	c.tensors, c.index = nil, map[string]int{}
	ends := map[string]int64{}
	order := slices.SortedFunc(slices.Values(c.stored), func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Begin, b.Begin))
	})
	for _, t := range order {
		if v := weights[t.Name]; v != nil {
			file := t.File + floatSuffix
			t = Tensor{Name: v.Name, DType: v.DType, Shape: v.Shape, File: file, Size: v.Bytes(), Begin: ends[file],
				values: c.valuesOf(v)}
			ends[file] += t.Size
		} else if hidden[t.Name] {
			continue
		}
		c.tensors = append(c.tensors, t)
	}
	for _, file := range sortedKeys(ends) {
		c.views = append(c.views, Source{file, ends[file]})
	}
	c.sortTensors()
	if ignored > 0 {
		c.detail("%d tensors are left out: scales of activations, which stay floats", ignored)
	}
}

func (c *Checkpoint) valuesOf(v *quantized.Values) *values {
	x := &values{of: v, read: c.readStored}
	for _, name := range v.Tensors {
		t, _ := c.lookupStored(name)
		x.stored += t.Size
	}
	return x
}

// Stored returns all tensors as the weight files hold them, sorted by name: other ones than Tensors if config.json
// declares weights that become floats. The caller must not modify the slice.
func (c *Checkpoint) Stored() []Tensor {
	if c.stored != nil {
		return c.stored
	}
	return c.tensors
}

// Dequantized returns the type of the elements of a weight that becomes floats: "F8_E4M3", "nf4"; "" for others.
func (t Tensor) Dequantized() string {
	if t.values == nil {
		return ""
	}
	return t.values.of.Kind
}

// Dequantized returns the number of weights that become floats, and the bytes of the tensors that hold them.
func (c *Checkpoint) Dequantized() (n int, bytes int64) {
	for _, t := range c.tensors {
		if t.values != nil {
			n, bytes = n+1, bytes+t.values.stored
		}
	}
	return n, bytes
}
