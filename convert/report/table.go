package report

import (
	"errors"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/parquet-go/parquet-go"
)

// record is one row of the table; the fields are its columns.
type record struct {
	Tensor    string   `parquet:"tensor"`
	Layer     *int32   `parquet:"layer,optional"` // null outside of the layers
	Module    string   `parquet:"module"`
	Shape     []int64  `parquet:"shape,list"`
	DType     string   `parquet:"dtype"`
	Rule      string   `parquet:"rule"`
	Layout    string   `parquet:"layout"`
	Alphabet  string   `parquet:"alphabet"`
	Scale     string   `parquet:"scale"`
	Scales    int64    `parquet:"scale_count"`
	ScaleMin  float64  `parquet:"scale_min"`
	ScaleMax  float64  `parquet:"scale_max"`
	ScaleMean float64  `parquet:"scale_mean"`
	Codes     []Code   `parquet:"codes,list"`
	RelError  *float64 `parquet:"relative_error,optional"` // null when it was not measured
	BytesIn   int64    `parquet:"bytes_in"`
	BytesOut  int64    `parquet:"bytes_out"`
	Seconds   float64  `parquet:"seconds"`
}

func (r *Row) record() record {
	layer, module := place(r.Tensor)
	shape := make([]int64, len(r.Shape))
	for i, n := range r.Shape {
		shape[i] = int64(n)
	}
	return record{
		Tensor: r.Tensor, Layer: layer, Module: module, Shape: shape, DType: r.DType, Rule: r.Rule, Layout: r.Layout,
		Alphabet: r.Alphabet, Scale: r.Scale, Scales: r.Scales.Count, ScaleMin: r.Scales.Min, ScaleMax: r.Scales.Max,
		ScaleMean: r.Scales.Mean,
		Codes:     r.Codes,
		RelError:  r.RelError,
		BytesIn:   r.BytesIn,
		BytesOut:  r.BytesOut,
		Seconds:   r.Seconds,
	}
}

// metadata of the table as keys and values.
func (r *Report) metadata() (keys, values []string) {
	return []string{"lowpack.tool", "lowpack.source", "lowpack.file", "lowpack.recipe", "lowpack.rules"},
		[]string{r.Tool, r.Source, r.File, r.Recipe, r.Rules}
}

func (r *Report) parquet(w io.Writer) error {
	var options []parquet.WriterOption
	keys, values := r.metadata()
	for i := range keys {
		options = append(options, parquet.KeyValueMetadata(keys[i], values[i]))
	}
	table := parquet.NewGenericWriter[record](w, options...)
	for i := range r.Rows {
		if _, err := table.Write([]record{r.Rows[i].record()}); err != nil {
			return err
		}
	}
	return table.Close()
}

// schema has the same columns as the Parquet form.
func (r *Report) schema() *arrow.Schema {
	code := arrow.StructOf(arrow.Field{Name: "value", Type: arrow.PrimitiveTypes.Int32},
		arrow.Field{Name: "count", Type: arrow.PrimitiveTypes.Int64})
	fields := []arrow.Field{
		{Name: "tensor", Type: arrow.BinaryTypes.String},
		{Name: "layer", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "module", Type: arrow.BinaryTypes.String},
		{Name: "shape", Type: arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int64)},
		{Name: "dtype", Type: arrow.BinaryTypes.String},
		{Name: "rule", Type: arrow.BinaryTypes.String},
		{Name: "layout", Type: arrow.BinaryTypes.String},
		{Name: "alphabet", Type: arrow.BinaryTypes.String},
		{Name: "scale", Type: arrow.BinaryTypes.String},
		{Name: "scale_count", Type: arrow.PrimitiveTypes.Int64},
		{Name: "scale_min", Type: arrow.PrimitiveTypes.Float64},
		{Name: "scale_max", Type: arrow.PrimitiveTypes.Float64},
		{Name: "scale_mean", Type: arrow.PrimitiveTypes.Float64},
		{Name: "codes", Type: arrow.ListOfNonNullable(code)},
		{Name: "relative_error", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "bytes_in", Type: arrow.PrimitiveTypes.Int64},
		{Name: "bytes_out", Type: arrow.PrimitiveTypes.Int64},
		{Name: "seconds", Type: arrow.PrimitiveTypes.Float64},
	}
	metadata := arrow.NewMetadata(r.metadata())
	return arrow.NewSchema(fields, &metadata)
}

func (r *Report) arrow(w io.Writer) error {
	schema := r.schema()
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := range r.Rows {
		appendRecord(b, r.Rows[i].record())
	}
	batch := b.NewRecord()
	defer batch.Release()
	file, err := ipc.NewFileWriter(&counter{w: w}, ipc.WithSchema(schema))
	if err != nil {
		return err
	}
	if err := file.Write(batch); err != nil {
		return err
	}
	return file.Close()
}

// counter knows its position, which is all that the file writer asks of a seeker.
type counter struct {
	w  io.Writer
	at int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.at += int64(n)
	return n, err
}

func (c *counter) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekCurrent {
		return 0, errors.ErrUnsupported
	}
	return c.at, nil
}

// appendRecord appends to every column, in the order of the schema.
func appendRecord(b *array.RecordBuilder, r record) {
	column := 0
	next := func() array.Builder { column++; return b.Field(column - 1) }
	text := func(s string) { next().(*array.StringBuilder).Append(s) }
	number := func(n int64) { next().(*array.Int64Builder).Append(n) }
	float := func(f float64) { next().(*array.Float64Builder).Append(f) }

	text(r.Tensor)
	if layer := next().(*array.Int32Builder); r.Layer != nil {
		layer.Append(*r.Layer)
	} else {
		layer.AppendNull()
	}
	text(r.Module)
	shape := next().(*array.ListBuilder)
	shape.Append(true)
	shape.ValueBuilder().(*array.Int64Builder).AppendValues(r.Shape, nil)
	for _, s := range []string{r.DType, r.Rule, r.Layout, r.Alphabet, r.Scale} {
		text(s)
	}
	number(r.Scales)
	float(r.ScaleMin)
	float(r.ScaleMax)
	float(r.ScaleMean)
	codes := next().(*array.ListBuilder)
	codes.Append(true)
	code := codes.ValueBuilder().(*array.StructBuilder)
	for _, c := range r.Codes {
		code.Append(true)
		code.FieldBuilder(0).(*array.Int32Builder).Append(c.Value)
		code.FieldBuilder(1).(*array.Int64Builder).Append(c.Count)
	}
	if e := next().(*array.Float64Builder); r.RelError != nil {
		e.Append(*r.RelError)
	} else {
		e.AppendNull()
	}
	number(r.BytesIn)
	number(r.BytesOut)
	float(r.Seconds)
}
