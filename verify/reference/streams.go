package reference

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// streams are the matrices that make residual streams, and what is averaged of them (N68).
type streams struct{ into, from []linear }

// altUp predicts and corrects the residual streams around a block (N68).
type altUp struct {
	norm                     norm
	router, predict, correct linear
	scale                    []float32 // nil = none
}

func openStreams(v packed.View, d *model.Description) (s streams, err error) {
	if d.Streams == nil {
		return s, nil
	}
	for _, x := range []struct {
		to    *[]linear
		names []string
	}{{&s.into, d.Streams.Into}, {&s.from, d.Streams.From}} {
		for _, name := range x.names {
			l, err := openScores(v, name, d.Hidden, d.Hidden)
			if err != nil {
				return s, err
			}
			*x.to = append(*x.to, l)
		}
	}
	return s, nil
}

func openAltUp(v packed.View, d *model.Description, x *model.AltUp) (a *altUp, err error) {
	if x == nil {
		return nil, nil
	}
	a = &altUp{}
	n := d.Streams.Count
	if a.norm, err = openNorm(v, d, x.Norm, d.Hidden); err != nil {
		return nil, err
	}
	for _, l := range []struct {
		to      *linear
		name    string
		in, out int
	}{{&a.router, x.Router, d.Hidden, n}, {&a.predict, x.Predict, n, n * n}, {&a.correct, x.Correct, n, n}} {
		if *l.to, err = openScores(v, l.name, l.in, l.out); err != nil {
			return nil, err
		}
	}
	a.scale, err = openVector(v, x.Scale, d.Hidden)
	return a, err
}

// checkStreams checks that streams and blocks go together.
func checkStreams(d *model.Description) error {
	s := d.Streams
	if s != nil && (s.Count < 2 || s.Count > 64 || s.Active < 0 || s.Active >= s.Count || len(s.Into) != s.Count-1 ||
		len(s.From) != s.Count-1 || d.Parallel) {
		return fmt.Errorf("%w: model: residual stream %d of %d", pack.ErrCorrupt, s.Active, s.Count)
	}
	if x := d.LayerInputs; x != nil && (x.Rows < 1 || x.Size < 1 || d.Activation == model.XIELU) {
		return fmt.Errorf("%w: model: %d layer inputs of %d tokens", pack.ErrCorrupt, x.Size, x.Rows)
	}
	for i := range d.Blocks {
		if b := &d.Blocks[i]; (b.AltUp != nil) != (s != nil) || (b.LayerInput != nil) != (d.LayerInputs != nil) {
			return fmt.Errorf("%w: model: layer %d has not the residual streams or layer inputs of the others",
				pack.ErrCorrupt, i)
		}
		if err := checkBeside(d, &d.Blocks[i]); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
	}
	return nil
}

// checkBeside checks the linear layers beside attention and MLP against the widths of the model.
func checkBeside(d *model.Description, b *model.Block) error {
	var list []widths
	if b.Laurel != nil && d.Parallel {
		return fmt.Errorf("%w: model: Laurel where attention and MLP read the same norm", pack.ErrCorrupt)
	}
	experts := b.Experts != nil && b.Experts.BesideMLP == nil
	if b.Sparsity != 0 && (experts || !(b.Sparsity > 0 && b.Sparsity < 1)) {
		return fmt.Errorf("%w: model: %v of the gates are cut to zero", pack.ErrCorrupt, b.Sparsity)
	}
	if x := b.Laurel; x != nil {
		list = append(list, widths{&x.Left, d.Hidden, x.Right.In}, widths{&x.Right, x.Left.Out, d.Hidden})
	}
	if x := b.LayerInput; x != nil {
		list = append(list, widths{&x.Gate, d.Hidden, d.LayerInputs.Size},
			widths{&x.Projection, d.LayerInputs.Size, d.Hidden})
	}
	return checkWidths(list)
}

// spread makes the other streams of the embeddings, which are the first one.
func (p *pass) spread() error {
	if p.d.Streams == nil {
		return nil
	}
	p.streams = [][][]float32{p.h}
	for i := range p.matrices.into {
		y, err := p.linear(&p.matrices.into[i], p.h)
		if err != nil {
			return err
		}
		for t := range y {
			resize(y[t], p.h[t])
		}
		p.streams = append(p.streams, y)
	}
	return nil
}

// resize gives y the root mean square of x.
func resize(y, x []float32) {
	n := float32(len(x))
	size, own := sqrt(dot(x, x)/n), sqrt(max(dot(y, y)/n, 1e-5))
	for i, v := range y {
		y[i] = float32(v*size) / own
	}
}

// gather makes the average of all streams the residual stream.
func (p *pass) gather() error {
	if p.d.Streams == nil {
		return nil
	}
	first := p.streams[0]
	p.h = vectors(len(first), p.d.Hidden)
	for t := range first {
		copy(p.h[t], first[t])
	}
	for j := range p.matrices.from {
		y, err := p.linear(&p.matrices.from[j], p.streams[j+1])
		if err != nil {
			return err
		}
		for t := range y {
			resize(y[t], first[t])
			for i, v := range y[t] {
				p.h[t][i] += v
			}
		}
	}
	for t := range p.h {
		for i, v := range p.h[t] {
			p.h[t][i] = v / float32(p.d.Streams.Count)
		}
	}
	return nil
}

// modes are the outputs of the router of a block.
func (p *pass) modes(a *altUp, x [][]float32) ([][]float32, error) {
	x, err := p.norm(x, a.norm)
	if err != nil {
		return nil, err
	}
	in, scale := vectors(len(x), p.d.Hidden), 1/float32(p.d.Hidden)
	for t := range x {
		for i, v := range x[t] {
			in[t][i] = float32(v * scale)
		}
	}
	m, err := p.linear(&a.router, in)
	for t := range m {
		for i, v := range m[t] {
			m[t][i] = tanh(v)
		}
	}
	return m, err
}

// predict replaces the streams by their predictions, of which the active one is the residual stream of the block.
func (p *pass) predict(a *altUp) error {
	if a == nil {
		return nil
	}
	n := p.d.Streams.Count
	m, err := p.modes(a, p.streams[p.d.Streams.Active])
	if err != nil {
		return err
	}
	c, err := p.linear(&a.predict, m)
	if err != nil {
		return err
	}
	next := make([][][]float32, n)
	for j := range next {
		next[j] = vectors(len(c), p.d.Hidden)
		for t := range c {
			for i := range next[j][t] {
				x := float32(p.streams[0][t][i] * c[t][j*n])
				for k := 1; k < n; k++ {
					x += float32(p.streams[k][t][i] * c[t][j*n+k])
				}
				next[j][t][i] = x + p.streams[j][t][i]
			}
		}
	}
	p.streams, p.h = next, next[p.d.Streams.Active]
	return nil
}

// correct adds to the predictions what the block has changed.
func (p *pass) correct(a *altUp) error {
	if a == nil {
		return nil
	}
	m, err := p.modes(a, p.h)
	if err != nil {
		return err
	}
	c, err := p.linear(&a.correct, m)
	if err != nil {
		return err
	}
	next := make([][][]float32, len(p.streams))
	for j := range next {
		next[j] = vectors(len(c), p.d.Hidden)
		for t := range c {
			factor := c[t][j] + 1
			for i := range next[j][t] {
				change := p.h[t][i] - p.streams[p.d.Streams.Active][t][i]
				next[j][t][i] = p.streams[j][t][i] + float32(change*factor)
			}
		}
	}
	p.streams = next
	return nil
}
