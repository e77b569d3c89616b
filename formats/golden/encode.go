package golden

import (
	"bytes"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// version of the schema and the plan, stored in the schema's metadata.
const version = "3"

// Kinds of rows.
const (
	kindProduct = "product"
	kindLogits  = "logits"
	kindText    = "text"
)

// schema returns the schema of the stream (docs/GOLDEN.md). A row has nulls in the columns of other kinds.
func schema() *arrow.Schema { return schemaOf(version) }

// schemaOf returns the schema of a version: version 1 had no texts, version 2 no experts.
func schemaOf(version string) *arrow.Schema {
	ints := arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int32)
	floats := arrow.ListOfNonNullable(arrow.PrimitiveTypes.Float32)
	meta := arrow.NewMetadata([]string{"lowpack.golden"}, []string{version})
	fields := []arrow.Field{
		{Name: "kind", Type: arrow.BinaryTypes.String},
		{Name: "name", Type: arrow.BinaryTypes.String},
		{Name: "seed", Type: arrow.PrimitiveTypes.Uint64},
		{Name: "vectors", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "rows", Type: ints, Nullable: true},
		{Name: "products", Type: ints, Nullable: true},
		{Name: "products_sha256", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "sequence", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "position", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "token", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "given", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "logits_sha256", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "top_tokens", Type: ints, Nullable: true},
		{Name: "top_logits", Type: floats, Nullable: true},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "plain", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "tokens", Type: ints, Nullable: true},
		{Name: "expert", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	}
	switch version {
	case "1":
		fields = fields[:14]
	case "2":
		fields = fields[:17]
	}
	return arrow.NewSchema(fields, &meta)
}

// columns builds a record batch, column by column in schema order.
type columns struct {
	*array.RecordBuilder
	next int
}

func newColumns() *columns {
	return &columns{RecordBuilder: array.NewRecordBuilder(memory.NewGoAllocator(), schema())}
}

// field returns the builder of the next column of a row.
func (c *columns) field() array.Builder {
	b := c.Field(c.next)
	c.next = (c.next + 1) % len(c.Fields())
	return b
}

func (c *columns) text(s string)   { c.field().(*array.StringBuilder).Append(s) }
func (c *columns) uint64(v uint64) { c.field().(*array.Uint64Builder).Append(v) }
func (c *columns) int32(v int32)   { c.field().(*array.Int32Builder).Append(v) }
func (c *columns) bool(v bool)     { c.field().(*array.BooleanBuilder).Append(v) }

func (c *columns) int32s(v []int32) {
	l := c.field().(*array.ListBuilder)
	l.Append(true)
	l.ValueBuilder().(*array.Int32Builder).AppendValues(v, nil)
}

func (c *columns) float32s(v []float32) {
	l := c.field().(*array.ListBuilder)
	l.Append(true)
	l.ValueBuilder().(*array.Float32Builder).AppendValues(v, nil)
}

func (c *columns) nulls(n int) {
	for range n {
		c.field().AppendNull()
	}
}

func (c *columns) product(p *Product) {
	c.text(kindProduct)
	c.text(p.Tensor)
	c.uint64(p.Seed)
	c.int32(int32(p.Vectors))
	c.int32s(p.Rows)
	c.int32s(p.Values)
	if p.Digest == "" {
		c.nulls(1)
	} else {
		c.text(p.Digest)
	}
	c.nulls(7 + 3)
	c.int32(p.Expert)
}

func (c *columns) logits(l *Logits) {
	c.text(kindLogits)
	c.text(fmt.Sprintf("sequence %d", l.Sequence))
	c.uint64(l.Seed)
	c.nulls(4)
	c.int32(int32(l.Sequence))
	c.int32(l.Position)
	c.int32(l.Token)
	c.bool(l.Given)
	c.text(l.Digest)
	c.int32s(l.TopTokens)
	c.float32s(l.TopLogits)
	c.nulls(3 + 1)
}

func (c *columns) encoded(t *Text) {
	c.text(kindText)
	c.text(t.Name)
	c.uint64(0)
	c.nulls(11)
	c.text(t.Text)
	c.bool(t.Plain)
	c.int32s(t.Tokens)
	c.nulls(1)
}

// Encode returns the record as an Arrow IPC stream: one batch each of products, logits and texts, if any. Equal records
// give equal bytes.
func (r *Record) Encode() ([]byte, error) {
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema()))
	c := newColumns()
	defer c.Release()
	for i := range r.Products {
		c.product(&r.Products[i])
	}
	if err := c.write(w, len(r.Products)); err != nil {
		return nil, err
	}
	for i := range r.Logits {
		c.logits(&r.Logits[i])
	}
	if err := c.write(w, len(r.Logits)); err != nil {
		return nil, err
	}
	for i := range r.Texts {
		c.encoded(&r.Texts[i])
	}
	if err := c.write(w, len(r.Texts)); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encode golden outputs: %w", err)
	}
	return out.Bytes(), nil
}

// write writes the buffered rows as one batch.
func (c *columns) write(w *ipc.Writer, rows int) error {
	if rows == 0 {
		return nil
	}
	batch := c.NewRecord()
	defer batch.Release()
	if err := w.Write(batch); err != nil {
		return fmt.Errorf("encode golden outputs: %w", err)
	}
	return nil
}

// Size returns the length of Encode's result. The plan determines it: results have fixed sizes, except texts, which the
// plan already contains.
func (r *Record) Size() (int, error) {
	b, err := r.Encode()
	return len(b), err
}
