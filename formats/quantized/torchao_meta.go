package quantized

import (
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// aoTensors are the tensor subclasses of TorchAO by kind of elements, as the metadata of weight files names them.
var aoTensors = map[string]string{"int8": "Int8Tensor", "int": "IntxUnpackedToInt8Tensor",
	"float8_e4m3fn": "Float8Tensor"}

// hold compares what the metadata of the weight files says of a weight, from which transformers makes its tensor, with
// its parts and their declaration in config.json. It returns the type to which the weight is dequantized.
func (f *torchao) hold(p *parts, said *aoWeight, codes Tensor, grid [2]int) (of safetensors.DType) {
	weight := p.module + ".weight"
	texts := f.files.Metadata(weight)
	if p.err != nil {
		return ""
	}
	if len(texts) != 1 {
		p.fail(pack.ErrCorrupt, "the metadata of the weight files has %d descriptions of %q, want 1, as transformers "+
			"writes it; download the checkpoint again", len(texts), weight)
		return ""
	}
	file := fmt.Sprintf("module %q: metadata of the weight files: %s", p.module, weight)
	v, err := object(file, []byte(texts[0]))
	if err != nil {
		p.err = err
		return ""
	}
	k := &keys{file: file, v: v}
	k.follow("torchao_metadata")
	class := aoTensors[aoClasses[said.class].kind]
	if got := k.text("_type", ""); got != class {
		k.fail(pack.ErrCorrupt, "_type is %.40q, but %s in %s makes a %s", got, said.class, f.file, class)
	}
	names := []string{"qdata", "scale"}
	if p.has(aoZeros) {
		names = append(names, "zero_point")
	}
	if got := slices.Sorted(slices.Values(k.texts("_tensor_data_names"))); !slices.Equal(got, names) {
		k.fail(pack.ErrCorrupt, "_tensor_data_names has %.100q, but the tensors are %q", got, names)
	}
	data := k.sub("_data")
	if data.v == nil {
		k.fail(pack.ErrCorrupt, "_data is missing")
	} else {
		of = data.aoHeld(class, said, [2]int{codes.Shape[0] / grid[0], codes.Shape[1] / grid[1]})
	}
	k.take(data)
	p.err = k.err
	return of
}

// aoHeld reads the attributes of a tensor, and compares them with the declaration and with the rows and columns per
// scale.
func (k *keys) aoHeld(class string, said *aoWeight, block [2]int) (of safetensors.DType) {
	k.follow(class)
	if got := k.pair("block_size"); got != block {
		k.fail(pack.ErrCorrupt, "block_size is %v, but the scales and %s make it %v", got, said.class, block)
	}
	want := fmt.Sprintf("int%d", said.bits)
	if got := k.name("target_dtype", ""); class == aoTensors["int"] && got != want {
		k.fail(pack.ErrCorrupt, "target_dtype is %.20q, but %s says %s", got, said.class, want)
	}
	dtype := k.name("dtype", "")
	if of = weightTypes[dtype]; of == "" {
		k.fail(pack.ErrUnsupported, "dtype is %.20q; supported are bfloat16, float16 and float32", dtype)
	}
	return of
}

// plain fails if the metadata of the weight files describes a tensor that is stored whole as one of another class,
// whose parts then are missing.
func (f *torchao) plain(name string, look Lookup) error {
	if _, stored := look(name); !stored {
		return nil
	}
	for _, text := range f.files.Metadata(name) {
		file := "metadata of the weight files: " + name
		v, err := object(file, []byte(text))
		if err != nil {
			return err
		}
		k := &keys{file: file, v: v}
		if got := k.text("_type", ""); got != "Tensor" {
			k.fail(pack.ErrCorrupt, "_type is %.40q, whose parts have other names, but tensor %q is there; download "+
				"the checkpoint again", got, name)
		}
		if k.err != nil {
			return k.err
		}
	}
	return nil
}
