package synth

import (
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// shard is one weight file.
type shard struct {
	name    string
	header  []byte
	tensors []tensor // in the order of the file
}

func (s *shard) size() int64 {
	return int64(len(s.header)) + s.tensors[len(s.tensors)-1].End
}

// headerAlign is the alignment to which the reference writer pads headers.
const headerAlign = 8

// split distributes the tensors over weight files, in evaluation order as other writers do; within a file they are
// sorted by descending element size, then by name.
func split(tensors []tensor, o *Options) ([]shard, error) {
	if o.Shards < 0 || o.Shards > len(tensors) {
		return nil, fmt.Errorf("%w: %d weight files for %d tensors", pack.ErrUnsupported, o.Shards, len(tensors))
	}
	groups := group(tensors, o)
	shards := make([]shard, len(groups))
	for i, g := range groups {
		s := &shards[i]
		s.name = "model.safetensors"
		if len(groups) > 1 {
			s.name = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(groups))
		}
		if err := s.place(g); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return shards, nil
}

// group splits the list into runs: o.Shards of about the same size, or as few as stay below o.ShardSize.
func group(tensors []tensor, o *Options) [][]tensor {
	total := int64(0)
	for i := range tensors {
		total += tensors[i].bytes()
	}
	most, files := o.ShardSize, len(tensors)
	if o.Shards > 0 {
		files = o.Shards
		most = (total + int64(files) - 1) / int64(files)
	} else if most <= 0 {
		return [][]tensor{tensors}
	}
	var groups [][]tensor
	from, size := 0, int64(0)
	for i := range tensors {
		full := size+tensors[i].bytes() > most
		needed := o.Shards > 0 && len(tensors)-i < files-len(groups) // every remaining file gets a tensor
		if i > from && len(groups)+1 < files && (full || needed) {
			groups, from, size = append(groups, tensors[from:i]), i, 0
		}
		size += tensors[i].bytes()
	}
	return append(groups, tensors[from:])
}

// bytes is the size of a tensor that has no offset yet.
func (t *tensor) bytes() int64 {
	n := t.DType.Size()
	for _, dim := range t.Shape {
		n *= dim
	}
	return n
}

func (s *shard) place(tensors []tensor) error {
	byName := map[string]func() filler{}
	infos := make([]safetensors.TensorInfo, len(tensors))
	for i, t := range tensors {
		infos[i], byName[t.Name] = t.TensorInfo, t.filler
	}
	safetensors.Order(infos)
	if err := safetensors.Place(infos); err != nil {
		return err
	}
	for _, info := range infos {
		s.tensors = append(s.tensors, tensor{info, byName[info.Name]})
	}
	var err error
	s.header, err = safetensors.AppendHeader(nil, []safetensors.KV{{Key: "format", Value: "pt"}}, infos, headerAlign)
	return err
}

// texts returns all files except the weights.
func texts(c *config, d *model.Description, shards []shard) []text {
	list := []text{
		{"config.json", func() []byte { return c.config }},
		{"generation_config.json", func() []byte { return c.generation }},
	}
	if hasVocabulary(d.Vocab, c.special) {
		bos := d.BOS
		if slices.Contains(d.EOS, bos) {
			bos = -1 // if the only special token ends texts, no text starts with it
		}
		list = append(list,
			text{"tokenizer.json", func() []byte { return newVocabulary(d.Vocab, c.special).json(bos) }},
			text{"tokenizer_config.json", func() []byte {
				return newVocabulary(d.Vocab, c.special).config(bos, c.stop, d.MaxPositions)
			}})
	}
	if len(shards) > 1 {
		list = append(list, text{"model.safetensors.index.json", func() []byte { return index(shards) }})
	}
	return list
}

func index(shards []shard) []byte {
	total, where := int64(0), map[string]string{}
	for _, s := range shards {
		for _, t := range s.tensors {
			total += t.Size()
			where[t.Name] = s.name
		}
	}
	return encode(map[string]any{"metadata": map[string]any{"total_size": total}, "weight_map": where})
}
