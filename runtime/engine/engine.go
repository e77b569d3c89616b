// Package engine runs a model from a packed file: forward passes over batches of sequences with a KV cache, and the
// choice of the next token.
//
// [Open] returns an [Engine], [Engine.NewSequence] begins a text, [Engine.Forward] computes logits of several sequences
// at once (tokens × vocabulary float32, row-major), and [Engine.Generate] streams one text. Errors wrap
// [pack.ErrCorrupt], [pack.ErrUnsupported] or [pack.ErrLimit]; a chunk whose numbers overflow fails alone, with
// [NonFinite].
//
// The forward pass is that of docs/NUMERICS.md: exact integer products, floats in a fixed order. Its logits are the
// same, bit for bit, for every number of threads, every way to cut a prompt into chunks, every batch that a
// sequence is computed in, and every instruction set.
package engine

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/mmap"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
	"github.com/lowpack/lowpack/runtime/engine/internal/draft"
)

// Options of an engine. The zero value is a sensible choice for a single conversation.
type Options struct {
	Threads   int // workers; 0 = one per CPU that this process may use
	Context   int // maximum tokens per sequence; 0 = what the model was trained for, at most DefaultContext
	Sequences int // sequences that can be open at once; 0 = 1
	Batch     int // maximum tokens per pass over the weights; 0 = DefaultBatch

	// maximum tokens in the KV cache, over all sequences and held pages; 0 = Sequences · Context; or CacheFits
	CacheTokens int
	Page        int // tokens per page of the KV cache, a multiple of 32; 0 = the fastest
	Memory      int // bytes that CacheFits and NUMACopy count as free, at most; 0 = all that are

	// Cache is the format of the KV cache; "" = CacheF32, the only one that gives the logits of the golden outputs.
	Cache CacheType

	// NUMA divides threads and weights among the NUMA nodes of the machine; "" = NUMADistribute. It changes speed and
	// memory, and no result.
	NUMA NUMA

	// FloatActivations computes in floats throughout: activations are not quantized, and weights are dequantized
	// beforehand. It serves comparison with references that do so. It is slow and needs four bytes per weight.
	FloatActivations bool

	// OnePass says that a sequence gets all of its tokens in one pass: at most Batch tokens over all chunks, appended
	// to empty sequences. All blocks then use the same KV cache memory, one after another, unless some read the keys
	// and values of others, or heads have two sizes.
	OnePass bool

	// Device computes the passes: "" or device.CPU = the CPU, else a name for device.Open, or device.Auto. The logits
	// are the same, bit for bit. A model or an option that a device does not serve is an error that says so; with
	// device.Auto the CPU then computes, and Notice is told.
	Device string
	// DeviceLayers is the number of layers that the device computes, the last ones with the output head, or all that
	// there are; the CPU computes the others. 0 = as many as fit its free memory beside the KV cache, or with CacheFits
	// beside that of one context. More than fit, or no room for any, is an error that wraps pack.ErrLimit, and treated
	// as Device says.
	DeviceLayers int
	// OpenDevice opens the device by its name; nil = device.Open.
	OpenDevice func(name string) (device.Backend, error)
	// Notice, if set, is told in a line why the CPU computes what a device was asked for: at first, or from then on
	// when a device has failed.
	Notice func(line string)

	// Observe, if set, is called with the input of linear layers, the output head included. It must not retain its
	// slices. It may change the vectors, and return replacement weights, row-major, one per name, which the pass then
	// uses; nil = the weights of the file. Only float layers have such vectors.
	Observe func(in Input) (others [][]float32)
}

// Input is what some linear layers multiply.
type Input struct {
	Weights []string  // their names
	Vectors []float32 // of Size elements each, one after another in token order
	Size    int
	// Stream is the residual stream of these tokens when the layer reads its input, for the output projections of
	// attention and recurrent layers, and gate, up and down: their outputs reach only the stream of their own token.
	// nil = another layer (keys and values are read by other tokens), or an expert that some tokens have not chosen.
	Stream []float32
}

// The defaults of Options.
const (
	DefaultContext = 4096
	DefaultBatch   = 128 // fastest of 64, 128, 256 and 512 on a busy Zen 4: chosen by a coarse sweep, one run each
)

// CacheFits is the value of Options.CacheTokens for a KV cache that takes at most half of the free memory, but holds at
// least one context.
const CacheFits = -1

// Engine is a loaded model. Its methods may be called from any goroutine; Forward calls run one after another.
type Engine struct {
	desc       *model.Description
	opt        Options
	pool       *kernel.Pool
	weights    weights
	activation packed.Activation
	pages      pages
	windows    windows
	states     states
	found      *found       // until the model is loaded
	device     *accelerator // nil = the CPU computes
	ledger     ledger       // of pages, with a device
	sequences  []*Sequence
	ahead      interface{ Reach(stage int) } // reads the weights; nil where a device computes
	copies     [][]byte                      // of weights of the file (NUMACopy)
	copied     int                           // bytes of them
	close      []func()
	taken      int // bytes reserved by another engine, possibly not in use yet
	costs      draft.Costs
	cost       func(tokens int) float64 // costs.Of; replaced in tests

	mu           sync.Mutex // held by Forward and by methods that change sequences
	pass         pass
	screenedRows int
}

// Open loads a packed file. The weights stay in the memory map of the file.
func Open(path string, o Options) (*Engine, error) {
	f, err := packed.Open(path)
	if err != nil {
		return nil, err
	}
	e, err := New(f, o)
	if err != nil {
		f.Close()
		return nil, filerr.Named(path, err)
	}
	e.close = append([]func(){func() { f.Close() }}, e.close...) // last of all: the weights lie in the file
	return e, nil
}

// New builds an engine from a view of a packed file, which must stay open until Close.
func New(v packed.View, o Options) (*Engine, error) {
	d, err := describe(v)
	if err != nil {
		return nil, err
	}
	return build(v, d, o)
}

func describe(v packed.View) (d *model.Description, err error) {
	err = mmap.Guard(func() error {
		d, err = packed.Describe(v)
		return err
	})
	return d, err
}

// For returns the options of an engine for a packed file, with defaults filled in, without loading anything. It returns
// the errors of New that concern options and description.
func (o Options) For(v packed.View) (Options, error) {
	err := mmap.Guard(func() error {
		d, err := packed.Describe(v)
		if err != nil {
			return err
		}
		if err := o.complete(d); err != nil {
			return &OptionError{err}
		}
		return nil
	})
	return o, err
}

// build makes the engine of the model that d describes.
func build(v packed.View, d *model.Description, o Options) (*Engine, error) {
	return buildOn(nil, v, d, o)
}

// buildOn makes an engine that shares the workers of another one and leaves its memory alone; other may be nil.
func buildOn(other *Engine, v packed.View, d *model.Description, o Options) (*Engine, error) {
	if err := kernel.Check(); err != nil {
		return nil, err
	}
	if err := o.complete(d); err != nil {
		return nil, &OptionError{err}
	}
	e := &Engine{desc: d, opt: o}
	if other != nil {
		e.pool, e.taken = other.pool, other.MemoryBytes()-other.copied
	}
	e.startPool() // which knows what the nodes read ahead
	e.cost = e.costs.Of
	if err := mmap.Guard(func() error { return e.load(v) }); err != nil {
		e.Close()
		return nil, err
	}
	if err := e.start(); err != nil {
		return nil, err
	}
	return e, nil
}

// start allocates memory and starts workers for the loaded model.
func (e *Engine) start() error {
	err := e.findDevice()
	if err == nil {
		err = e.allocate()
	}
	if err != nil {
		e.Close()
		return err
	}
	e.startPool()
	e.settle()
	e.newPass()
	if err := e.loadDevice(); err != nil {
		e.Close()
		return err
	}
	if e.device == nil && e.ahead == nil {
		e.readAhead()
	}
	return nil
}

// startPool starts workers, if there are none.
func (e *Engine) startPool() {
	if e.pool == nil {
		e.pool = kernel.NewPoolOn(e.opt.Threads, e.opt.nodes())
		e.close = append(e.close, e.pool.Close)
	}
}

// OptionError says that the options ask for something that the model does not support.
type OptionError struct{ Err error }

func (e *OptionError) Error() string { return e.Err.Error() }
func (e *OptionError) Unwrap() error { return e.Err }

// complete fills in the defaults and rejects invalid options.
func (o *Options) complete(d *model.Description) error {
	for _, n := range []struct {
		name  string
		value int
	}{{"threads", o.Threads}, {"context", o.Context}, {"sequences", o.Sequences}, {"batch", o.Batch},
		{"page", o.Page}, {"memory", o.Memory}, {"device layers", o.DeviceLayers}} {
		if n.value < 0 {
			return fmt.Errorf("%w: %s is %d; it cannot be negative", pack.ErrUnsupported, n.name, n.value)
		}
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Context == 0 {
		o.Context = min(d.MaxPositions, DefaultContext)
	}
	if o.Context > d.MaxPositions {
		return fmt.Errorf("%w: a context of %d tokens; the model was made for %d positions", pack.ErrLimit, o.Context,
			d.MaxPositions)
	}
	if n := d.FixedPositions(); o.OnePass && o.Context > n {
		return fmt.Errorf("%w: a context of %d tokens in one pass; rotations change after %d", pack.ErrUnsupported,
			o.Context, n)
	}
	if o.Sequences == 0 {
		o.Sequences = 1
	}
	if o.Batch == 0 {
		o.Batch = DefaultBatch
	}
	o.Batch = min(o.Batch, o.Context*o.Sequences)
	if o.CacheTokens < CacheFits {
		return fmt.Errorf("%w: a KV cache of %d tokens", pack.ErrUnsupported, o.CacheTokens)
	}
	if o.Page%tensor.CacheBlock != 0 {
		return fmt.Errorf("%w: pages of %d tokens; want a multiple of %d", pack.ErrUnsupported, o.Page,
			tensor.CacheBlock)
	}
	if o.Cache == "" {
		o.Cache = CacheF32
	}
	if o.NUMA == "" {
		o.NUMA = NUMADistribute
	}
	if !slices.Contains(NUMAModes(), o.NUMA) {
		return fmt.Errorf("%w: NUMA mode %q; there are %v", pack.ErrUnsupported, o.NUMA, NUMAModes())
	}
	if !slices.Contains(CacheTypes(), o.Cache) {
		return fmt.Errorf("%w: cache format %q; there are %v", pack.ErrUnsupported, o.Cache, CacheTypes())
	}
	return nil
}

// Description of the model. It must not be changed.
func (e *Engine) Description() *model.Description { return e.desc }

// Options returns the options of the engine, with defaults filled in.
func (e *Engine) Options() Options { return e.opt }

// WeightBytes is the number of bytes of weights that a decode step reads: all linear layers, one row of the embedding,
// and the head.
func (e *Engine) WeightBytes() int { return e.weights.bytes(false) }

// WeightBytesTop is WeightBytes for a step that needs the largest logits only (Chunk.Top): for the head it counts the
// screen, if there is one.
func (e *Engine) WeightBytesTop() int { return e.weights.bytes(true) }

// MemoryBytes is the number of bytes that the engine takes in addition to the weights: the KV cache at its maximum
// size, recurrent states, the buffers of a pass, and copies of weights (NUMACopy).
func (e *Engine) MemoryBytes() int {
	return e.copied + len(e.pages.memory.Bytes) + e.windowBytes() + int(e.stateBytes()+e.passBytes())
}

// AvailableMemory is the number of bytes that this process can still allocate without making others swap; where the
// system does not report it, a number larger than any memory.
func AvailableMemory() int { return availableMemory() }

// ScreenedRows counts the rows of the output head that were computed exactly after screening, since the engine was
// made.
func (e *Engine) ScreenedRows() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.screenedRows
}

// Close stops the workers and releases memory. No other method may be running or called afterwards.
func (e *Engine) Close() {
	if e.found != nil { // and never loaded
		e.found.backend.Close()
		e.found = nil
	}
	for i := len(e.close) - 1; i >= 0; i-- {
		e.close[i]()
	}
	e.close = nil
}
