// Package hf shows a GGUF as the Hugging Face checkpoint that it was made from: config.json, the tokenizer's files, the
// chat template and generation_config.json rebuilt from its keys, and its tensors under their first names, with the
// rows in their first order.
//
// One table (families.go) has the architectures; what a file says and the table does not know is refused by name. The
// other direction, from a checkpoint to keys and tensors of a GGUF, uses the same tables.
package hf

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/pack"
)

// File is a GGUF: the keys of its first part, and the tensors of all parts.
type File struct {
	Keys    *gguf.Header
	Tensors map[string]gguf.TensorInfo
	// Floats reads the values of a small tensor of floats.
	Floats func(t gguf.TensorInfo) ([]float32, error)
}

// Texts rebuilds the small files beside the weights, by name. A file that holds a vocabulary alone has no config.json.
func (f *File) Texts() (map[string][]byte, error) {
	k := &keys{h: f.Keys, arch: f.architecture()}
	texts := map[string][]byte{}
	if len(f.Tensors) > 0 {
		config, err := f.config(k)
		if err != nil {
			return nil, err
		}
		texts["config.json"] = config
	}
	if err := tokenizerTexts(k, texts); err != nil {
		return nil, err
	}
	if err := generation(k, texts); err != nil {
		return nil, err
	}
	return texts, k.err
}

func (f *File) architecture() string {
	v, _ := f.Keys.Get("general.architecture")
	s, _ := v.Text()
	return s
}

func (f *File) family() (*family, error) {
	arch := f.architecture()
	for _, kv := range f.Keys.Keys {
		if refused := refusedKey(kv.Key); refused != "" {
			return nil, fmt.Errorf("%w: key %q: %s", pack.ErrUnsupported, kv.Key, refused)
		}
	}
	known := false
	experts, _ := (&keys{h: f.Keys, arch: arch}).count(".expert_count")
	for i := range families {
		known = known || families[i].arch == arch
		if families[i].arch == arch && families[i].experts == (experts > 0) {
			return &families[i], nil
		}
	}
	if known {
		return nil, fmt.Errorf("%w: key %q is %d, which no model of architecture %s is known to have", pack.ErrUnsupported,
			arch+".expert_count", experts, arch)
	}
	return nil, fmt.Errorf("%w: general.architecture is %q; supported are %s", pack.ErrUnsupported, arch, architectures())
}
