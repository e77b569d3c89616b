package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
	"github.com/lowpack/lowpack/runtime/device/counting"
)

// DeviceSchema names the form of a DeviceReport in JSON. It changes when a field changes its meaning.
const DeviceSchema = "lowpack.bench.device/1"

// SubmitSeconds is what a submit takes by itself: the median for a small product on a quiet software device (lavapipe),
// which has no bus and no processor of its own to wake.
const SubmitSeconds = 15e-6

// DeviceReport is what the passes of a model ask of a device, and an estimate of the time that they take on some GPUs.
// Nothing is measured.
type DeviceReport struct {
	Schema        string      `json:"schema"`
	Computed      string      `json:"computed"` // what the times are, in a sentence
	File          string      `json:"file"`
	Family        string      `json:"family"`
	Device        string      `json:"device"` // the kind whose dispatches are counted
	SubmitSeconds float64     `json:"submit_seconds"`
	GPUs          []GPU       `json:"gpus"`
	Rows          []DeviceRow `json:"rows"`
}

// Computed says what the times of a DeviceReport are.
const Computed = "an estimate from the peaks of the GPUs, not measured; a dispatch takes the longest of its bytes, " +
	"int8 and float32 operations at the peaks, a submit 15 µs"

// DeviceRow is a prompt, which may be several passes, or a step of decode: in the middle of what a ModelReport times.
type DeviceRow struct {
	What    string `json:"what"` // Prompt, Generate or Context, as in a ModelRow
	Tokens  int    `json:"tokens"`
	Batch   int    `json:"batch"`
	Refused string `json:"refused,omitempty"` // why there are no figures

	Dispatches int `json:"dispatches"`
	Barriers   int `json:"barriers"`
	Submits    int `json:"submits"`
	Copies     int `json:"copies"`       // between the host and memory that it may not reach: a submit more each, then
	Copied     int `json:"copied_bytes"` // between the host and all memory of the device
	counting.Cost
	Memory int       `json:"memory_bytes"` // of the device, for weights, KV cache and vectors
	Times  []GPUTime `json:"times"`        // of each of the GPUs
}

// Label names a row.
func (r *DeviceRow) Label() string {
	w := Work{What: r.What, Tokens: r.Tokens, Batch: r.Batch}
	return w.Label()
}

// What takes most of the time of a pass.
const (
	ByMemory  = "memory"
	ByInt8    = "int8"
	ByFloat32 = "float32"
	BySubmits = "submits"
)

// GPUTime is the estimated time of a row on a GPU.
type GPUTime struct {
	GPU          string  `json:"gpu"`
	Seconds      float64 `json:"seconds"`
	TokensPerSec float64 `json:"tokens_per_second"`
	Bound        string  `json:"bound"`             // ByMemory, ByInt8, ByFloat32 or BySubmits: what takes most of it
	Refused      string  `json:"refused,omitempty"` // why there is no time
}

// Devices counts what the passes of a packed file ask of the kind of device in the options, and estimates the time
// that they take on the GPUs. Nothing is measured, and no device is needed. A model that devices do not serve is the
// error that it is on a device.
func Devices(ctx context.Context, path string, o ModelOptions) (*DeviceReport, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	f, d, err := openModel(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &DeviceReport{Schema: DeviceSchema, Computed: Computed, File: path, Family: d.Family, Device: o.Device,
		SubmitSeconds: SubmitSeconds, GPUs: GPUs()}
	works := o.works()
	for i, w := range works {
		o.progress(i, len(works), w.Label())
		row, err := r.row(ctx, f, &o, w)
		if err != nil {
			return nil, filerr.Named(path, err)
		}
		r.Rows = append(r.Rows, *row)
	}
	return r, nil
}

// works lists what is counted, in the order of a ModelReport.
func (o *ModelOptions) works() (list []Work) {
	for _, n := range o.Prompts {
		list = append(list, Work{What: Prompt, Tokens: n, Batch: 1})
	}
	for _, n := range o.Batches {
		list = append(list, Work{What: Generate, Tokens: o.Generate, Batch: n})
	}
	for _, n := range o.Contexts {
		list = append(list, Work{What: Context, Tokens: n, Batch: 1})
	}
	return list
}

// row counts a row. One that exceeds the model's context is refused.
func (r *DeviceReport) row(ctx context.Context, f *packed.File, o *ModelOptions, w Work) (*DeviceRow, error) {
	counter := counting.New(o.Device, 0)
	var failed error
	options, _ := w.stage()
	options.Threads, options.Cache, options.Device = 1, o.Cache, o.Device
	options.OpenDevice = func(string) (device.Backend, error) { return counter, nil }
	options.Notice = func(line string) { failed = fmt.Errorf("%w: %s", pack.ErrUnsupported, line) }
	row := &DeviceRow{What: w.What, Tokens: w.Tokens, Batch: w.Batch}
	s, err := newStage(f, options)
	if errors.Is(err, pack.ErrLimit) {
		row.Refused = err.Error()
		return row, nil
	} else if err != nil {
		return nil, err
	}
	defer s.engine.Close()
	if err := s.count(ctx, w, counter); err != nil {
		return nil, err
	}
	row.fill(counter)
	tokens := w.Batch
	if w.What == Prompt {
		tokens = w.Tokens
	}
	for i := range r.GPUs {
		row.Times = append(row.Times, r.GPUs[i].time(row, counter.Dispatches, tokens))
	}
	return row, failed
}

// count makes a device count a prompt, or a step of decode in the middle of what a ModelReport times.
func (s *stage) count(ctx context.Context, w Work, counter *counting.Device) (err error) {
	tokens := 1
	switch w.What {
	case Prompt:
		tokens = w.Tokens
	case Generate:
		err = s.append(ctx, max(1, w.Tokens/2))
	case Context:
		err = s.append(ctx, w.Tokens)
	}
	if err != nil {
		return err
	}
	counter.Reset()
	return s.append(ctx, tokens)
}

// append appends tokens to every sequence.
func (s *stage) append(ctx context.Context, tokens int) error {
	for i := range s.chunks {
		s.chunks[i].Tokens = text(tokens, s.vocab)
	}
	return s.engine.Forward(ctx, s.chunks)
}

// fill takes over what was counted.
func (r *DeviceRow) fill(d *counting.Device) {
	r.Dispatches, r.Barriers, r.Submits = len(d.Dispatches), d.Barriers, d.Submits
	r.Copies, r.Copied, r.Memory = d.Copies, d.Copied, d.Allocated()
	for _, c := range d.Dispatches {
		r.Cost.Add(c)
	}
}

// time estimates the time of a row.
func (g *GPU) time(row *DeviceRow, dispatches []counting.Cost, tokens int) GPUTime {
	t := GPUTime{GPU: g.Name}
	if row.Memory > g.Memory {
		t.Refused = fmt.Sprintf("%.1f GiB are needed, of %d GiB of memory", float64(row.Memory)/gib, g.Memory/gib)
		return t
	}
	by := map[string]float64{BySubmits: float64(row.Submits) * SubmitSeconds}
	for i := range dispatches {
		bound, seconds := g.dispatch(&dispatches[i])
		by[bound] += seconds
	}
	for _, bound := range []string{ByMemory, ByInt8, ByFloat32, BySubmits} {
		t.Seconds += by[bound]
		if t.Bound == "" || by[bound] > by[t.Bound] {
			t.Bound = bound
		}
	}
	t.TokensPerSec = float64(tokens) / t.Seconds
	return t
}

// dispatch estimates the time of a dispatch, and what it is bound by.
func (g *GPU) dispatch(c *counting.Cost) (bound string, seconds float64) {
	const operations = 2 // of a multiply-add
	bound, seconds = ByMemory, float64(c.Bytes())/g.Bandwidth
	if t := operations * float64(c.Int8) / g.Int8; t > seconds {
		bound, seconds = ByInt8, t
	}
	if t := operations * float64(c.Attention+c.Floats) / g.Float32; t > seconds {
		bound, seconds = ByFloat32, t
	}
	return bound, seconds
}
