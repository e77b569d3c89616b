package engine

import (
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
)

// streams are the matrices that make residual streams, and what is averaged of them (STREAMS N68).
type streams struct{ into, from []projection }

// altUp predicts and corrects the residual streams around a block (STREAMS N68).
type altUp struct {
	norm                     norm
	router, predict, correct *tensor.Matrix
	scale                    []float32 // nil = none
}

func (l *loader) streams() (s streams) {
	d := l.desc
	if d.Streams == nil {
		return s
	}
	for i := range d.Streams.Into {
		s.into = append(s.into, l.plain(d.Streams.Into[i], d.Hidden, d.Hidden))
		s.from = append(s.from, l.plain(d.Streams.From[i], d.Hidden, d.Hidden))
	}
	return s
}

// plain binds a matrix that is never quantized.
func (l *loader) plain(name string, in, out int) projection {
	f := projection{in: in, names: []string{name}}
	f.add(matrix{rows: out, floats: l.floats(name, out, in)})
	return f
}

func (l *loader) altUp(x *model.AltUp) *altUp {
	if x == nil {
		return nil
	}
	n, hidden := l.desc.Streams.Count, l.desc.Hidden
	a := &altUp{norm: l.norm(x.Norm, hidden), router: l.floats(x.Router, n, hidden),
		predict: l.floats(x.Predict, n*n, n), correct: l.floats(x.Correct, n, n)}
	if x.Scale != "" {
		a.scale = l.vector(x.Scale, hidden)
	}
	return a
}

// streamState are the residual streams of the tokens of a pass.
type streamState struct {
	count, active, hidden int
	now, next             [][]float32 // [count][n][Hidden]: of the last block, and predicted
	scratch               []float32   // [n][Hidden]
	modes                 []float32   // [n][count]: outputs of the router
	coefs                 []float32   // [n][count²]
	routed                []float32   // [n][Hidden]: input of the router
}

func newStreamState(d *model.Description, batch int) (s streamState) {
	if d.Streams == nil {
		return s
	}
	n := d.Streams.Count
	s = streamState{count: n, active: d.Streams.Active, hidden: d.Hidden, modes: make([]float32, batch*n),
		coefs: make([]float32, batch*n*n), scratch: make([]float32, batch*d.Hidden),
		routed: make([]float32, batch*d.Hidden)}
	for range n {
		s.now = append(s.now, make([]float32, batch*d.Hidden))
		s.next = append(s.next, make([]float32, batch*d.Hidden))
	}
	return s
}

// floats is the number of values per token.
func streamFloats(d *model.Description) int {
	if d.Streams == nil {
		return 0
	}
	n := d.Streams.Count
	return 2*n*d.Hidden + 2*d.Hidden + n + n*n
}

// spread makes the other streams of the embeddings, which are the first one.
func (e *Engine) spread(n int) {
	p, s := &e.pass, &e.pass.streams
	if s.count == 0 {
		return
	}
	copy(s.now[0][:n*s.hidden], p.h)
	for i := range e.weights.streams.into {
		f := &e.weights.streams.into[i]
		e.input(n, prepareTask{projection: f, src: p.h, stride: s.hidden})
		e.multiply(f, n, s.now[i+1], nil)
		p.resize = resizeTask{y: s.now[i+1], x: s.now[0], hidden: s.hidden}
		distribute(e.pool, n, 1, &p.resize)
	}
}

// gather makes the average of all streams the residual stream.
func (e *Engine) gather(n int) {
	p, s := &e.pass, &e.pass.streams
	if s.count == 0 {
		return
	}
	copy(p.h[:n*s.hidden], s.now[0])
	for i := range e.weights.streams.from {
		f := &e.weights.streams.from[i]
		e.input(n, prepareTask{projection: f, src: s.now[i+1], stride: s.hidden})
		e.multiply(f, n, p.y, nil)
		p.resize = resizeTask{y: p.y, x: s.now[0], sum: p.h, hidden: s.hidden}
		if i == len(e.weights.streams.from)-1 {
			p.resize.divisor = float32(s.count)
		}
		distribute(e.pool, n, 1, &p.resize)
	}
}

// resizeTask gives vectors the root mean square of others, adds them to a sum, and divides it.
type resizeTask struct {
	y, x, sum []float32 // sum nil = none
	hidden    int
	divisor   float32 // of the sum; 0 = none
}

func (k *resizeTask) Do(from, to int) {
	n := k.hidden
	for t := from; t < to; t++ {
		y, x := k.y[t*n:][:n], k.x[t*n:][:n]
		size := sqrt(tensor.SumSquares(x) / float32(n))
		own := sqrt(max(tensor.SumSquares(y)/float32(n), 1e-5))
		tensor.Times(y, size)
		tensor.Divide(y, y, own)
		if k.sum == nil {
			continue
		}
		sum := k.sum[t*n:][:n]
		if tensor.Add(sum, y); k.divisor != 0 {
			tensor.Divide(sum, sum, k.divisor)
		}
	}
}

// route computes the outputs of the router of a block for a token, and reports whether the norm is finite.
func (s *streamState) route(a *altUp, t int, x []float32) (m []float32, finite bool) {
	in := s.routed[t*s.hidden:][:s.hidden]
	_, finite = a.norm.apply(in, x)
	tensor.Times(in, 1/float32(s.hidden))
	m = s.modes[t*s.count:][:s.count]
	gemv(a.router, m, in)
	for i, v := range m {
		m[i] = tensor.Tanh(v)
	}
	return m, finite
}

// gemv multiplies a matrix by a vector.
func gemv(m *tensor.Matrix, y, x []float32) {
	m.Mul(tensor.Vectors{Data: y, Stride: m.Rows}, tensor.Vectors{Data: x, Stride: m.Cols}, 1,
		tensor.Range{To: m.Rows})
}

// predict predicts all streams; the active one is the residual stream of the block.
func (e *Engine) predict(b *block, n int) {
	if b.altUp == nil {
		return
	}
	p := &e.pass
	p.predicts = predictTask{&p.streams, b.altUp, p.h, &p.finiteCheck}
	distribute(e.pool, n, 1, &p.predicts)
}

type predictTask struct {
	*streamState
	altUp *altUp
	h     []float32
	*finiteCheck
}

func (k *predictTask) Do(from, to int) {
	n := k.hidden
	for t := from; t < to; t++ {
		m, finite := k.route(k.altUp, t, k.now[k.active][t*n:][:n])
		k.check(t, finite)
		c := k.coefs[t*k.count*k.count:][:k.count*k.count]
		gemv(k.altUp.predict, c, m)
		for j := range k.next {
			y, term := k.next[j][t*n:][:n], k.scratch[t*n:][:n]
			for i, x := range k.now {
				if i == 0 {
					copy(y, x[t*n:][:n])
					tensor.Times(y, c[j*k.count])
					continue
				}
				copy(term, x[t*n:][:n])
				tensor.Times(term, c[j*k.count+i])
				tensor.Add(y, term)
			}
			tensor.Add(y, k.now[j][t*n:][:n])
		}
		copy(k.h[t*n:][:n], k.next[k.active][t*n:][:n])
	}
}

// correct adds to the predictions what the block has changed.
func (e *Engine) correct(b *block, n int) {
	if b.altUp == nil {
		return
	}
	p := &e.pass
	p.corrects = correctTask{&p.streams, b.altUp, p.h, &p.finiteCheck}
	distribute(e.pool, n, 1, &p.corrects)
}

type correctTask predictTask

func (k *correctTask) Do(from, to int) {
	n := k.hidden
	for t := from; t < to; t++ {
		h, change := k.h[t*n:][:n], k.scratch[t*n:][:n]
		m, finite := k.route(k.altUp, t, h)
		k.check(t, finite)
		c := k.coefs[t*k.count*k.count:][:k.count]
		gemv(k.altUp.correct, c, m)
		for i, v := range k.next[k.active][t*n:][:n] {
			change[i] = h[i] - v
		}
		for j := range k.now {
			y := k.now[j][t*n:][:n]
			copy(y, change)
			tensor.Times(y, c[j]+1)
			tensor.Add(y, k.next[j][t*n:][:n])
		}
	}
}

// plain lists the projections of the model itself that are not its head.
func (w *weights) plain() (list []*projection) {
	for i := range w.streams.into {
		list = append(list, &w.streams.into[i], &w.streams.from[i])
	}
	if w.layerInputs != nil {
		list = append(list, &w.layerInputs.projection)
	}
	return list
}
