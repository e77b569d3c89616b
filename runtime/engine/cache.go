package engine

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/pack"
)

// Sequence is the KV cache of one sequence of tokens, and its recurrent state. Forward appends to it.
type Sequence struct {
	e     *Engine
	open  bool
	n     atomic.Int64 // tokens; written under Engine.mu only, read by Len while a pass is running
	kv    []layerCache
	pages []int32 // of Engine.pages, in the order of the tokens
	local []int32 // of Engine.windows, in the same order; noPage = none

	// Tokens may have to be computed once more (Engine.repeats): all after the first done ones, in the next pass.
	done int
	rows int // tokens whose keys and values are in the pages

	stage int         // of the rotations of these keys (N67)
	rope  tensor.Rope // of that stage, unless it is 0

	// The recurrent state (states), of models that have one. It stands behind the first done tokens.
	state     int32 // slot
	marked    int   // index of the page with the latest snapshot
	common    int   // other sequences are known to start with so many tokens, whole pages
	snapshots []snapshot
	computing bool // a pass changes the state
	appended  bool // and has succeeded
}

// layerCache holds the KV of one layer, per key/value head, with a row per position.
type layerCache struct{ keys, values []tensor.Cache }

// page is the number of rows of a page of one head. All heads of all layers have one page for the first positions, then
// all have one for the next: memory fills from front to back with the sequence, so that it can be backed by huge pages,
// which are read faster, and so that a short sequence needs little of it.
func (e *Engine) page() int {
	const block = tensor.CacheBlock
	rows := e.opt.Page
	if rows == 0 {
		rows = e.cacheType().PageRows(widest(e.headShapes()).dim)
	}
	return min(rows, (e.opt.Context+block-1)/block*block)
}

// cacheBytes is the size of the KV cache of one sequence, a float64 because an int could overflow.
func (e *Engine) cacheBytes(context int) float64 {
	return float64(context) * float64(e.bytesPerToken())
}

// bytesPerToken is the size of what pages hold of a token.
func (e *Engine) bytesPerToken() int64 {
	all := e.layerBytes(0, len(e.desc.Blocks))
	if e.reuses() {
		all = 0
		for i := range e.desc.Blocks {
			all = max(all, e.layerBytes(i, i+1))
		}
	}
	return max(1, all) // without attention, pages still count tokens and carry snapshots
}

// layerBytes is the size of what pages hold of a token in layers [from, to), each of which has memory of its own.
func (e *Engine) layerBytes(from, to int) (bytes int64) {
	for i := from; i < to; i++ {
		if b := &e.desc.Blocks[i]; !b.Local || !e.windowed() {
			bytes += blockBytes(e.desc, b, e.opt.Cache)
		}
	}
	return bytes
}

// reuses reports whether all layers have their keys and values in the same memory, one after the other. Those of heads
// of two sizes would lie where the others pad theirs with zeros.
func (e *Engine) reuses() bool {
	return e.opt.OnePass && e.desc.Global == nil &&
		!slices.ContainsFunc(e.desc.Blocks, func(b model.Block) bool { return b.KVOf != 0 })
}

// CacheBytesPerToken is the number of bytes that the KV cache of a model needs for each token of its context, as long
// as all of them are in the sliding windows.
func CacheBytesPerToken(d *model.Description, t CacheType) int64 {
	var bytes int64
	for i := range d.Blocks {
		bytes += blockBytes(d, &d.Blocks[i], t)
	}
	return bytes
}

// CacheBytesAt is the number of bytes that the KV cache of an engine with default options takes for one sequence of a
// context: layers with a sliding window hold no more than that and what a pass needs.
func CacheBytesAt(d *model.Description, t CacheType, context int) int64 {
	e := &Engine{desc: d, opt: Options{Context: max(1, context), Sequences: 1,
		Batch: min(DefaultBatch, max(1, context)), Cache: t}}
	e.planWindows()
	return int64(e.pagesFor(context))*int64(e.page())*e.bytesPerToken() + int64(e.windowBytes())
}

// blockBytes is the number of bytes of the KV cache of a block for each token, 0 if it has no keys and values of its
// own.
func blockBytes(d *model.Description, b *model.Block, t CacheType) int64 {
	if !b.Caches() {
		return 0
	}
	return int64(readBytes(d, b, t))
}

// readBytes is the number of bytes of KV that attention of a block reads for each token that it sees.
func readBytes(d *model.Description, b *model.Block, t CacheType) int {
	s := d.HeadShape(b)
	_, row := tensor.CacheType(t).Row(s.HeadDim)
	if d.Latent != nil { // keys and values are one
		return s.KVHeads * row
	}
	return 2 * s.KVHeads * row
}

// CacheBytes is the number of bytes of KV that a decode step reads at context depth n−1.
func (e *Engine) CacheBytes(n int) (bytes int) {
	for i := range e.weights.blocks {
		if !e.desc.Blocks[i].HasAttention() {
			continue
		}
		seen := n
		if w := e.desc.SlidingWindow; w > 0 && e.weights.blocks[i].local {
			seen = n - visible(n-1, w, e.desc.Chunked)
		}
		bytes += seen * readBytes(e.desc, &e.desc.Blocks[i], e.opt.Cache)
	}
	return bytes
}

// CacheType is the number format of a KV cache (N27, N82).
type CacheType string

// The formats. Only CacheF32 gives the logits of the golden outputs.
const (
	CacheF32 = CacheType(tensor.CacheF32)
	CacheF16 = CacheType(tensor.CacheF16)
	CacheI8  = CacheType(tensor.CacheI8)
	CacheI4  = CacheType(tensor.CacheI4)
)

// CacheTypes lists the formats, from the largest to the smallest.
func CacheTypes() []CacheType { return []CacheType{CacheF32, CacheF16, CacheI8, CacheI4} }

// cacheType is the KV cache format of this engine.
func (e *Engine) cacheType() tensor.CacheType { return tensor.CacheType(e.opt.Cache) }

// newSequence makes a sequence without pages; they are allocated as tokens are appended.
func (e *Engine) newSequence() *Sequence {
	d, n := e.desc, e.pagesFor(e.opt.Context)
	s := &Sequence{e: e, kv: make([]layerCache, d.Layers), pages: make([]int32, 0, n), state: noSlot, marked: -1}
	all, windows := e.roomIn(&e.pages, s.pages), room{}
	if e.windowed() {
		s.local = make([]int32, 0, n)
		windows = e.roomIn(&e.windows.pages, s.local)
	}
	for i := range s.kv {
		if of := d.Blocks[i].KVOf; of != 0 {
			s.kv[i] = s.kv[of-1]
		}
		if !d.Blocks[i].Caches() {
			continue
		}
		in := &all
		switch {
		case e.reuses():
			all.at = 0
		case d.Blocks[i].Local && e.windowed():
			in = &windows
		}
		shape := d.HeadShape(&d.Blocks[i])
		if keys := e.heads(tensor.NewKeys, shape, in); d.Latent != nil {
			s.kv[i] = layerCache{keys, keys}
		} else {
			s.kv[i] = layerCache{keys, e.heads(tensor.NewValues, shape, in)}
		}
	}
	return s
}

// room is the memory of pages, and how much of each the layers so far take.
type room struct {
	tensor.Memory
	at int
}

// roomIn returns the memory of the pages that are in a table up to its capacity.
func (e *Engine) roomIn(p *pages, table []int32) room {
	return room{tensor.Memory{Bytes: p.memory.Bytes, Rows: e.page(), Stride: p.stride, Table: table[:cap(table)]}, 0}
}

// heads makes the caches of the key/value heads of a layer.
func (e *Engine) heads(newCache func(tensor.CacheType, int, tensor.Memory) tensor.Cache, shape model.HeadShape,
	in *room) []tensor.Cache {
	list, memory := make([]tensor.Cache, shape.KVHeads), in.Memory
	_, row := e.cacheType().Row(shape.HeadDim)
	for i := range list {
		memory.Bytes = in.Bytes[in.at:]
		list[i] = newCache(e.cacheType(), shape.HeadDim, memory)
		in.at += in.Rows * row
	}
	return list
}

// unknownMemory stands for the free memory where the system does not report it: then a failed allocation ends the
// process with Go's own message.
const unknownMemory = math.MaxInt / 2

// allocate reserves the memory of the pages of all sequences, after checking that enough is free for them and for a
// pass.
func (e *Engine) allocate() error {
	o := e.opt
	e.planWindows()
	fixed := e.stateBytes() + float64(e.windowBytes())
	free, work := float64(availableMemory()-e.taken), e.passBytes()
	tokens := e.cacheTokens()
	cache := e.cacheBytes(tokens) + fixed
	if cache+work > free {
		const mib = 1 << 20
		fits := max(0, int((free-work-fixed)/(e.cacheBytes(1)*float64(o.Sequences))))
		if o.CacheTokens > 0 {
			return fmt.Errorf("%w: a KV cache of %d tokens needs %.0f MiB, and %.0f MiB are needed to compute with, "+
				"but %.0f MiB of memory are free; ask for a cache of at most %d tokens",
				pack.ErrLimit, tokens, cache/mib, work/mib, free/mib, fits*o.Sequences)
		}
		return fmt.Errorf("%w: %d sequences of %d tokens need %.0f MiB for the KV cache and %.0f MiB to compute with, "+
			"but %.0f MiB of memory are free; %s",
			pack.ErrLimit, o.Sequences, o.Context, cache/mib, work/mib, free/mib, remedy(fits))
	}
	if err := e.newPages(tokens / e.page()); err != nil {
		return err
	}
	if err := e.newWindows(); err != nil {
		return err
	}
	if err := e.newStates(); err != nil {
		return err
	}
	for range o.Sequences {
		e.sequences = append(e.sequences, e.newSequence())
	}
	return nil
}

// remedy says what to do if only a context of the given length fits into memory.
func remedy(fits int) string {
	if fits == 0 {
		return "end other programs, or use a machine with more memory: no context fits"
	}
	return fmt.Sprintf("ask for a context of at most %d tokens, for fewer sequences, or for a smaller KV cache type",
		fits)
}

// NewSequence opens an empty sequence. At most Options.Sequences can be open at once.
func (e *Engine) NewSequence() (*Sequence, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sequences {
		if !s.open {
			s.open = true
			return s, nil
		}
	}
	return nil, fmt.Errorf("%w: all %d sequences are open; close one, or make the engine with more", pack.ErrLimit,
		len(e.sequences))
}

// Len is the number of tokens of the sequence. It does not wait for a running Forward, whose tokens count once it has
// returned.
func (s *Sequence) Len() int { return int(s.n.Load()) }

// Truncate removes the tokens from position n on.
func (s *Sequence) Truncate(n int) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	s.truncate(n)
}

func (s *Sequence) truncate(n int) {
	s.n.Store(int64(max(0, min(s.Len(), n))))
	s.rows = min(s.rows, s.Len())
	s.shrink()
	if s.done > s.Len() {
		s.rewind()
	}
}

// Close releases the sequence and its pages. It must not be used afterwards.
func (s *Sequence) Close() {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	s.truncate(0)
	s.rewind()
	s.common, s.marked, s.stage = 0, -1, 0
	s.open = false
}
