package engine

import (
	"fmt"
	"math"
	"sync"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/pack"
)

// embedding returns the embeddings of tokens, stored as floats or as codes.
type embedding struct {
	cols     int
	rowBytes int // bytes of weights per row
	floats   *tensor.Matrix
	codes    *codeRows // nil for floats
}

// codeRows decodes single rows of a quantized matrix whose layout has row panels.
type codeRows struct {
	*units
	layout   pack.Paneled
	alphabet pack.Alphabet
	shape    pack.Shape
	panel    int // bytes
	data     []byte
	room     sync.Pool // of codes of a panel
}

// embedding binds the embedding, quantized or not.
func (l *loader) embedding(name string, rows, cols int) embedding {
	entry, quantized := l.view.Manifest().Entry(name)
	if !quantized {
		m := l.floats(name, rows, cols)
		return embedding{cols: cols, rowBytes: cols * m.Type.Size(), floats: m}
	}
	c, err := l.codeRows(entry, pack.Shape{M: rows, K: cols})
	if err != nil {
		l.fail(name, err)
		return embedding{cols: cols}
	}
	return embedding{cols: cols, rowBytes: entry.Bytes / rows, codes: c}
}

func (l *loader) codeRows(entry *packed.Entry, want pack.Shape) (c *codeRows, err error) {
	c = &codeRows{shape: want}
	if c.units, err = openUnits(l.view, entry, 0); err != nil {
		return nil, err
	}
	if err := c.units.openScales(l.view, entry, 0); err != nil {
		return nil, err
	}
	if c.alphabet, err = pack.FindAlphabet(entry.Layout.Alphabet); err != nil {
		return nil, err
	}
	layout, err := pack.Open(entry.Layout)
	if err != nil {
		return nil, err
	}
	paneled, ok := layout.(pack.Paneled)
	if !ok || entry.MatrixShape() != want || len(entry.Shape) != 2 || c.order != nil {
		return nil, fmt.Errorf("%w: shape %v in layout %s; an embedding is %v, in a layout in row panels, without an "+
			"order of columns (F10)", pack.ErrCorrupt, entry.Shape, entry.Layout.Name, want)
	}
	c.layout = paneled
	if c.panel, err = pack.PanelSize(paneled, want.K); err != nil {
		return nil, err
	}
	if c.data, err = packed.PackedBytes(l.view, entry, 0); err != nil {
		return nil, err
	}
	rows := paneled.PanelRows()
	c.room.New = func() any { return pack.NewMatrix(pack.Shape{M: rows, K: want.K}, c.alphabet) }
	// All codes are checked now, so that decoding a row later cannot fail.
	return c, c.check()
}

// check decodes all panels.
func (c *codeRows) check() error {
	rows := c.layout.PanelRows()
	m := c.room.Get().(*pack.Matrix)
	defer c.room.Put(m)
	for p := range (c.shape.M + rows - 1) / rows {
		if err := c.unpack(m, p); err != nil {
			return err
		}
	}
	return nil
}

// unpack decodes a panel.
func (c *codeRows) unpack(m *pack.Matrix, panel int) error {
	rows := c.layout.PanelRows()
	m.M = min(rows, c.shape.M-panel*rows)
	m.Codes = m.Codes[:m.M*m.K]
	err := c.layout.Unpack(m, c.data[panel*c.panel:min((panel+1)*c.panel, len(c.data))])
	m.Codes = m.Codes[:cap(m.Codes)]
	return err
}

// Row sets dst to the embedding of a token.
func (e *embedding) Row(dst []float32, token int) {
	if e.codes == nil {
		e.floats.Row(dst, token)
		return
	}
	c := e.codes
	m, rows := c.room.Get().(*pack.Matrix), c.layout.PanelRows()
	defer c.room.Put(m)
	if err := c.unpack(m, token/rows); err != nil {
		dst[0] = float32(math.NaN()) // the file was changed since check: an error by N4
		return
	}
	c.row(dst, token, m.Codes[token%rows*m.K:][:m.K])
}

// places are the rows that positions add to embeddings (NUMERICS N43).
type places struct {
	rows  *tensor.Matrix // nil = none
	first int            // row of the first position
}

// places binds them.
func (l *loader) places() (p places) {
	if d := l.desc; d.Positions != "" {
		p = places{l.floats(d.Positions, d.MaxPositions+d.FirstPosition, d.Hidden), d.FirstPosition}
	}
	return p
}

// embedTask looks up the embeddings of tokens and computes their rotations.
type embedTask struct {
	tokens  []token
	weights *weights
	scale   float32 // 0 = none
	h       []float32
	x       []float32 // [n][hidden]: scratch
	rotary  *rotary
	*finiteCheck
}

// embed sets the residual stream of the tokens of a pass to their embeddings.
func (e *Engine) embed() {
	p := &e.pass
	p.embed = embedTask{p.tokens, &e.weights, e.desc.EmbedScale, p.h, p.x, &p.rotary, &p.finiteCheck}
	distribute(e.pool, len(p.tokens), 1, &p.embed)
}

func (k *embedTask) Do(from, to int) {
	n, w := k.weights.embed.cols, k.weights
	for t := from; t < to; t++ {
		h := k.h[t*n:][:n]
		w.embed.Row(h, k.tokens[t].id)
		if k.scale != 0 {
			tensor.Times(h, k.scale)
		}
		if w.places.rows != nil {
			row := k.x[t*n:][:n]
			w.places.rows.Row(row, k.tokens[t].pos+w.places.first)
			tensor.Add(h, row)
		}
		if w.embedNorm.exists() {
			_, finite := w.embedNorm.apply(h, h)
			k.check(t, finite)
		}
		k.rotary.compute(t, k.tokens[t].pos, k.tokens[t].seq)
	}
}
