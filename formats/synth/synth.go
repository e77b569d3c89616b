// Package synth writes checkpoints with random weights: the true tensor names, shapes, dtypes and files of any
// configuration that lowpack can read, so that conversion, kernels and the engine can be measured and tested at the
// sizes of published models without their weights.
//
// A checkpoint is a function of its configuration, the options and the seed, byte by byte. It is written in pieces of a
// few megabytes, whatever its size. Weights are scaled so that activations stay of size 1 through all layers; text that
// such a model writes means nothing.
package synth

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
)

// Options of a checkpoint. The zero value of every field but Config is a sensible choice.
type Options struct {
	Config    []byte  // config.json
	Stop      []int   // end-of-text tokens in addition to Config's, for generation_config.json
	Weights   Weights // kind of weights of the linear layers
	Zeros     float64 // share of zeros in ternary weights; 0 = the share in bitnet-b1.58-2B-4T
	Seed      uint64
	EqualHead bool  // an untied output head equals the embedding
	Mini      bool  // shrink the configuration to a miniature of its family
	Shards    int   // number of weight files; 0 = 1, or as ShardSize requires
	ShardSize int64 // maximum bytes of data per weight file; 0 = unlimited
}

// Checkpoint is a planned checkpoint, ready to be written.
type Checkpoint struct {
	Description *model.Description
	Weights     Weights
	tensors     []tensor // in the order of evaluation
	shards      []shard
	texts       []text // config.json, tokenizer.json, …
}

// text is a small file, generated when it is written.
type text struct {
	name string
	data func() []byte
}

const usualZeros = 0.422 // of bitnet-b1.58-2B-4T

// New plans a checkpoint. Errors name the unsupported values of the configuration or the options.
func New(o Options) (*Checkpoint, error) {
	if o.Zeros == 0 {
		o.Zeros = usualZeros
	}
	if o.Zeros < 0.1 || o.Zeros > 0.9 {
		return nil, fmt.Errorf("%w: a share of zeros of %v; supported is 0.1 to 0.9", pack.ErrUnsupported, o.Zeros)
	}
	if err := o.Weights.check(); err != nil {
		return nil, err
	}
	c, err := newConfig(&o)
	if err != nil {
		return nil, err
	}
	d, err := model.Parse(c.config, c.generation, nil)
	if err != nil {
		return nil, err
	}
	dtype, err := dtypeOf(c.dtype)
	if err != nil {
		return nil, err
	}
	p, err := newPlanner(d, &o, c.quantMethod(), dtype)
	if err != nil {
		return nil, err
	}
	ck := &Checkpoint{Description: d, Weights: p.weights, tensors: p.tensors()}
	if ck.shards, err = split(ck.tensors, &o); err != nil {
		return nil, err
	}
	ck.texts = texts(c, d, ck.shards)
	return ck, nil
}

// Bytes is the size of all weight files, including headers.
func (c *Checkpoint) Bytes() int64 {
	n := int64(0)
	for _, s := range c.shards {
		n += s.size()
	}
	return n
}

// Parameters is the number of weights of the model, however they are stored.
func (c *Checkpoint) Parameters() int64 {
	n := int64(0)
	for _, t := range c.Description.Tensors() {
		product := int64(1)
		for _, dim := range t.Shape {
			product *= int64(dim)
		}
		n += product
	}
	return n
}

// Tensors is the number of stored tensors.
func (c *Checkpoint) Tensors() int { return len(c.tensors) }

// Files names every file of the checkpoint.
func (c *Checkpoint) Files() []string {
	var names []string
	for _, t := range c.texts {
		names = append(names, t.name)
	}
	for _, s := range c.shards {
		names = append(names, s.name)
	}
	return names
}
