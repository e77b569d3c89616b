// Package layer is the door by which verify reaches the attention of one layer of package engine. Verification gives it
// queries, keys and values of its own making, for contexts that are longer than those of golden outputs. No user of an
// engine needs that, so its API does not have it: package engine sets New when it is linked in.
package layer

import "github.com/lowpack/lowpack/formats/packed"

// New makes the attention of layer i of the model in v, with the pages, thresholds and ways of sharing work among workers
// that every engine has.
var New func(v packed.View, i int, o Options) (Layer, error)

// Options are those of an engine. Context bounds the positions of a sequence.
type Options struct {
	Threads, Context, Sequences, Batch int
	Cache                              string // format of the KV cache
}

// Layer rotates queries and keys, keeps them in its KV cache, and computes attention, without the rest of the
// model.
type Layer interface {
	// NewSequence opens one of Options.Sequences.
	NewSequence() (Sequence, error)
	// Append appends rows to their sequences, at most Options.Batch tokens in all, and computes the attention of all of
	// them if it is wanted of the first.
	Append(batch []Rows) error
	// Close releases the memory of the layer.
	Close()
}

// Sequence is an *engine.Sequence.
type Sequence interface {
	Len() int
	Close()
}

// Rows are tokens to append to a sequence, as the query, key and value linear layers give them.
type Rows struct {
	Seq Sequence
	In  []float32 // [n][Heads + 2·KVHeads][HeadDim]
	Out []float32 // [n][Heads][HeadDim]: receives their attention; nil = not wanted
}
