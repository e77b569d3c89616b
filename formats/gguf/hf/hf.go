// Package hf presents a GGUF as the Hugging Face checkpoint it was converted from: it rebuilds config.json, the
// tokenizer files, the chat template and generation_config.json from the keys, and lists the tensors with their
// original names and row order.
//
// The architectures are in one table (families.go). Tensors that it does not cover are rejected by name, and so are
// keys by which llama.cpp computes and config.json cannot tell; llama.cpp ignores keys that it does not know, as this
// package does. Export from a checkpoint to GGUF keys and tensors uses the same tables.
package hf

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/pack"
)

// File is a GGUF: the keys of its first part and the tensors of all parts.
type File struct {
	Keys    *gguf.Header
	Tensors map[string]gguf.TensorInfo
	// Floats reads the values of a small float tensor.
	Floats func(t gguf.TensorInfo) ([]float32, error)
}

// Texts rebuilds the text files of the checkpoint, by name. A file with only a vocabulary has no config.json.
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
	known, k := false, &keys{h: f.Keys, arch: arch}
	experts, _ := k.count(expertCount)
	for i := range families {
		x := &families[i]
		if x.arch != arch {
			continue
		}
		known = true
		found := (x.experts != nil) == (experts > 0) && (x.when == nil || x.when(k))
		if k.err != nil {
			return nil, k.err
		}
		if found {
			return x, nil
		}
	}
	if known {
		return nil, fmt.Errorf("%w: key %q is %d: no known model of architecture %s has that", pack.ErrUnsupported,
			arch+expertCount, experts, arch)
	}
	return nil, fmt.Errorf("%w: general.architecture is %q; supported are %s", pack.ErrUnsupported, arch,
		architectures())
}

// given selects files in which a key is a positive number.
func given(key string) func(k *keys) bool {
	return func(k *keys) bool {
		n, _ := k.count(key)
		return n > 0
	}
}
