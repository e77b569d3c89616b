package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/lowpack/lowpack/internal/mmap"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// accelerator computes the last layers of passes on a device. What the CPU needs for them is there too, but for the KV
// cache: when the device fails, the CPU computes that from the tokens and goes on.
type accelerator struct {
	pass   *device.Pass
	first  int // layer that the device computes; the CPU computes those before it
	host   int // bytes at the start of a page of the KV cache that the layers of the CPU take
	input  device.Input
	failed error // of a copy between passes
}

// found is a device that is open, and what it is to compute.
type found struct {
	open    func() (device.Backend, error)
	backend device.Backend
	model   *device.Model
}

// findDevice opens the device of the options, if they ask for one.
func (e *Engine) findDevice() error {
	switch name := e.opt.Device; name {
	case "", device.CPU:
		return nil
	case device.Auto:
		if err := e.find(name); err != nil {
			e.notice(fmt.Sprintf("the CPU computes: %v", err))
		}
		return nil
	default:
		return e.find(name)
	}
}

func (e *Engine) find(name string) error {
	m, err := e.deviceModel()
	if err != nil {
		return fmt.Errorf("device %s: %w", name, err)
	}
	opener := e.opt.OpenDevice
	if opener == nil {
		opener = device.Open
	}
	open := func() (device.Backend, error) { return opener(name) }
	b, err := open()
	if err != nil {
		return err
	}
	info := b.Info()
	if m, err = e.onDevice(info, m); err != nil {
		b.Close()
		return fmt.Errorf("device %s: %w", info.Name, err)
	}
	e.found = &found{open, b, m}
	return nil
}

// deviceShape is the size of the memory of a device.
func (e *Engine) deviceShape() device.Shape {
	return device.Shape{Tokens: e.opt.Batch, Rows: min(mostHeadRows, e.opt.Batch), Context: e.opt.Context,
		Pages: len(e.pages.users), PageRows: e.page()}
}

// devicePages is the number of pages of the KV cache that fit on the device, if there is one.
func (e *Engine) devicePages() (n int, ok bool) {
	if e.found == nil {
		return 0, false
	}
	return device.Pages(e.found.backend.Info(), e.found.model, e.deviceShape()), true
}

// loadDevice uploads the model to the device that was found.
func (e *Engine) loadDevice() error {
	if e.found == nil {
		return nil
	}
	f, shape := e.found, e.deviceShape()
	e.found = nil
	pass, err := f.load(shape)
	for errors.Is(err, pack.ErrLimit) && e.opt.DeviceLayers == 0 && len(f.model.Blocks) > 1 {
		// A driver says how much is free, but not in what pieces, and others take of it meanwhile.
		f.model = f.model.Last(len(f.model.Blocks) / 2)
		b, gone := f.open()
		if gone != nil {
			err = fmt.Errorf("%w; it does not open again: %w", err, gone)
			break
		}
		f.backend = b
		pass, err = f.load(shape)
	}
	switch {
	case err == nil:
		first := f.model.First
		e.device = &accelerator{pass: pass, first: first, host: e.page() * int(e.layerBytes(0, first))}
		e.ledger = newLedger(shape.Pages, shape.PageRows)
		e.close = append(e.close, e.closeDevice)
	case e.opt.Device == device.Auto:
		e.notice(fmt.Sprintf("the CPU computes: %v", err))
		err = nil
	default:
		err = fmt.Errorf("device %s: %w", e.opt.Device, err)
	}
	return err
}

// load uploads the model. The device is closed after an error.
func (f *found) load(shape device.Shape) (pass *device.Pass, err error) {
	err = mmap.Guard(func() (err error) {
		pass, err = device.Load(f.backend, f.model, shape)
		return err
	})
	return pass, err
}

func (e *Engine) closeDevice() {
	if e.device != nil {
		e.device.pass.Close() // the memory is gone whatever it says
		e.device = nil
	}
}

func (e *Engine) notice(line string) {
	if e.opt.Notice != nil {
		e.opt.Notice(line)
	}
}

// DeviceInfo describes the device that computes; ok is false if the CPU does.
func (e *Engine) DeviceInfo() (info device.Info, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.device == nil {
		return info, false
	}
	return e.device.pass.Info(), true
}

// copyPage copies a page of the KV cache on the device. An error counts when the next pass begins.
func (a *accelerator) copyPage(to, from int32) {
	if a.failed == nil {
		a.failed = a.pass.CopyPage(int(to), int(from))
	}
}

// deviceLayers takes the embeddings of a pass through the layers of the CPU, and then through those of the device and
// the head. If the device fails, the CPU does it all, now and from then on.
func (e *Engine) deviceLayers(ctx context.Context) error {
	err := e.device.failed
	if err == nil {
		if more, err := e.blocks(ctx, e.device.first); !more {
			return err
		}
		err = e.deviceTokens(ctx)
	}
	if err == nil || errors.Is(err, ctx.Err()) && ctx.Err() != nil {
		return err
	}
	e.notice(fmt.Sprintf("device %s has failed, and the CPU goes on with the same numbers: %v", e.opt.Device, err))
	e.closeDevice()
	return e.afterDevice(ctx)
}

// deviceTokens computes the tokens of the pass, as many at a time as the device takes.
func (e *Engine) deviceTokens(ctx context.Context) error {
	most, _ := e.device.pass.Most()
	for from := 0; from < len(e.pass.tokens); from += most {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := e.deviceRun(from, min(from+most, len(e.pass.tokens))); err != nil {
			return err
		}
	}
	return nil
}

// deviceRun computes tokens [from, to) of the pass.
func (e *Engine) deviceRun(from, to int) error {
	p, a := &e.pass, e.device
	in := &a.input
	in.Tokens, in.Pages, in.Trig, in.Span = in.Tokens[:0], in.Pages[:0], in.Trig[:0], 0
	in.H = p.h[from*e.desc.Hidden : to*e.desc.Hidden]
	for t := from; t < to; t++ {
		tok := &p.tokens[t]
		if t == from || tok.seq != p.tokens[t-1].seq {
			in.Tokens = append(in.Tokens, device.Token{Pages: uint32(len(in.Pages))})
			for _, id := range tok.seq.pages {
				in.Pages = append(in.Pages, uint32(id))
			}
		} else {
			in.Tokens = append(in.Tokens, in.Tokens[len(in.Tokens)-1])
		}
		own := &in.Tokens[len(in.Tokens)-1]
		own.Position, own.From, own.Scale = uint32(tok.pos), 0, p.rotary.queryScale(t, false)
		if w := e.desc.SlidingWindow; w > 0 {
			own.From = uint32(max(0, tok.pos+1-w))
		}
		in.Span = max(in.Span, tok.pos+1)
		for _, local := range [...]bool{false, true} {
			r := p.rotary.rotation(t, local)
			in.Trig = append(append(in.Trig, r.Cos...), r.Sin...)
		}
	}
	if err := a.pass.Run(in); err != nil {
		return err
	}
	if err := e.deviceHidden(from, to); err != nil {
		return err
	}
	if err := e.deviceLogits(from, to); err != nil {
		return err
	}
	return e.deviceFlags(from, to, "output head")
}

// deviceHidden delivers the requested hidden states of tokens [from, to): the device has the residual stream, to which
// the CPU applies the final norm.
func (e *Engine) deviceHidden(from, to int) error {
	p, size := &e.pass, e.desc.Hidden
	first, end := to, from // of the tokens with hidden states
	for t := from; t < to; t++ {
		if p.tokens[t].hidden != nil {
			first, end = min(first, t), t+1
		}
	}
	if first >= end {
		return nil
	}
	if err := e.device.pass.Residual(first-from, p.h[first*size:end*size]); err != nil {
		return err
	}
	if err := e.deviceFlags(from, to, finalNorm); err != nil {
		return err
	}
	e.deliverHidden(first, end)
	return nil
}

// deviceLogits computes the requested logits of tokens [from, to): those of which the largest are enough apart from the
// others, as head does.
func (e *Engine) deviceLogits(from, to int) error {
	p, a := &e.pass, e.device
	_, most := a.pass.Most()
	var rows []uint32
	var dst [][]float32
	for _, few := range [...]bool{true, false} {
		compute := a.pass.Logits
		if few {
			compute = a.pass.Top
		}
		for t := from; t < to; t++ {
			if tok := &p.tokens[t]; tok.logits != nil && a.few(tok) == few {
				rows, dst = append(rows, uint32(t-from)), append(dst, tok.logits)
			}
			if n := len(rows); n > 0 && (n == most || t == to-1) {
				if err := compute(rows, dst); err != nil {
					return err
				}
				rows, dst = rows[:0], dst[:0]
			}
		}
	}
	return nil
}

// few reports whether the largest logits that a device returns are enough for a token.
func (a *accelerator) few(t *token) bool {
	return t.top != 0 && t.top <= device.TopMost && len(t.keep) == 0 && a.pass.HasTop()
}

// deviceFlags turns what the device has noted of tokens [from, to) into the errors of the chunks: the first bad
// position of the first step that has one, as blame does. What the CPU has noted in its last layer is of the first step
// of the device, which reads it. last names what comes after the layers.
func (e *Engine) deviceFlags(from, to int, last string) error {
	p := &e.pass
	flags, err := e.device.pass.Flags(to - from)
	if err != nil {
		return err
	}
	for step := 2 * e.device.first; step <= 2*len(e.weights.blocks); step++ {
		for t, f := range flags {
			if int(f) == step {
				p.bad[from+t] = true
				p.wrong.Store(true)
			}
		}
		layer := step / 2
		switch {
		case layer == len(e.weights.blocks):
			p.blame(-1, last)
		case step%2 == 0:
			p.blame(layer, "attention")
		default:
			p.blame(layer, "feed-forward")
		}
	}
	return nil
}

// afterDevice computes the KV cache of all texts on the CPU, and then the pass that the device has not.
func (e *Engine) afterDevice(ctx context.Context) error {
	p, l := &e.pass, e.ledger
	e.ledger = ledger{}
	batch, tokens := p.batch, append([]token(nil), p.tokens...)
	for index := 0; index < e.pagesFor(e.opt.Context); index++ {
		for id := range l.pages {
			if e.pages.users[id] > 0 && l.pages[id].index == index {
				if err := e.computePage(ctx, &l, int32(id)); err != nil {
					return err
				}
			}
		}
	}
	p.batch, p.tokens = batch, append(p.tokens[:0], tokens...)
	p.begin()
	e.embed()
	return e.layers(ctx)
}

// computePage computes the keys and values of a page, after those of the pages before it.
func (e *Engine) computePage(ctx context.Context, l *ledger, id int32) error {
	pages, ids := l.chain(id), l.tokens(id)
	if pages == nil {
		return nil
	}
	p := &e.pass
	seq := e.newSequence()
	seq.pages = append(seq.pages, pages...)
	p.batch = []Chunk{{Seq: seq}}
	first := (len(pages) - 1) * e.page()
	for from := 0; from < len(ids); from += e.opt.Batch {
		p.tokens = p.tokens[:0]
		for i := from; i < min(from+e.opt.Batch, len(ids)); i++ {
			p.tokens = append(p.tokens, token{seq: seq, pos: first + i, id: int(ids[i])})
		}
		p.begin()
		e.embed()
		if err := e.layers(ctx); err != nil {
			return err
		}
	}
	return nil
}

// errOption says that an option or a model needs the CPU.
func errOption(what string) error {
	return fmt.Errorf("%w: %s: no device computes that, the CPU does (--device cpu)", pack.ErrUnsupported, what)
}
