package golden

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// MaxSize is the limit of bytes that Decode accepts.
const MaxSize = packed.MaxGolden

// Decode parses the output of Encode, followed by less than 64 zero bytes of padding, and nothing else: the record is
// encoded again and must give the same bytes. The input may be hostile.
func Decode(data []byte) (r *Record, err error) {
	defer func() {
		// The Arrow library panics on many kinds of broken input.
		if p := recover(); p != nil {
			r, err = nil, fmt.Errorf("%w: golden outputs: %v (F8)", pack.ErrCorrupt, p)
		}
	}()
	if len(data) > MaxSize {
		return nil, fmt.Errorf("%w: golden outputs of %d bytes; at most %d are read", pack.ErrLimit, len(data), MaxSize)
	}
	messages, err := split(data)
	if err != nil {
		return nil, err
	}
	if r, err = read(messages); err != nil {
		return nil, err
	}
	again, err := r.Encode()
	if err != nil {
		return nil, err
	}
	padding := len(data) - len(again)
	if padding < 0 || padding >= 64 || !bytes.Equal(data[:len(again)], again) ||
		len(bytes.Trim(data[len(again):], "\x00")) != 0 {
		return nil, fmt.Errorf("%w: golden outputs are not in canonical form (F8)", pack.ErrCorrupt)
	}
	return r, nil
}

// message is a message of a stream: a flatbuffer with metadata, and the body.
type message struct{ meta, body []byte }

// split cuts a stream into messages: the expected schema, byte for byte, then record batches. The Arrow library's own
// reader would trust every length and allocate it.
func split(data []byte) ([]message, error) {
	if err := CheckVersion(data); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(data, schemaMessage()) {
		return nil, fmt.Errorf("%w: golden outputs do not begin with the schema of version %s (F8)",
			pack.ErrCorrupt, version)
	}
	list := []message{}
	for {
		m, rest, err := cut(data, len(list))
		if err != nil || m.meta == nil {
			return list, err
		}
		list, data = append(list, m), rest
	}
}

// CheckVersion rejects golden outputs of earlier versions. The start of a stream is sufficient.
func CheckVersion(data []byte) error {
	for v, message := range earlierMessages() {
		if bytes.HasPrefix(data, message) {
			return fmt.Errorf("%w: golden outputs have version %d, but this program reads version %s; "+
				"convert the checkpoint again (F8)", pack.ErrUnsupported, v+1, version)
		}
	}
	return nil
}

// schemaMessage is the start of every stream, earlierMessages the starts of versions 1, 2 …
var (
	schemaMessage   = sync.OnceValue(func() []byte { return messageOf(version) })
	earlierMessages = sync.OnceValue(func() [][]byte { return [][]byte{messageOf("1"), messageOf("2")} })
)

func messageOf(version string) []byte {
	var out bytes.Buffer
	if err := ipc.NewWriter(&out, ipc.WithSchema(schemaOf(version))).Close(); err != nil {
		panic(err) // independent of any input
	}
	return out.Bytes()[:out.Len()-8] // without the end-of-stream marker
}

// cut takes message i off a stream; meta is nil at the end of the stream.
func cut(data []byte, i int) (m message, rest []byte, err error) {
	if len(data) < 8 || binary.LittleEndian.Uint32(data) != 0xffffffff {
		return m, nil, fmt.Errorf("%w: golden outputs: message %d of the stream has no marker (F8)", pack.ErrCorrupt, i)
	}
	n := int64(binary.LittleEndian.Uint32(data[4:]))
	if data = data[8:]; n == 0 {
		return m, data, nil
	}
	if n > int64(len(data)) {
		return m, nil, fmt.Errorf("%w: golden outputs: message %d ends after the stream (F8)", pack.ErrCorrupt, i)
	}
	m.meta, data = data[:n], data[n:]
	head := ipc.NewMessage(memory.NewBufferBytes(m.meta), memory.NewBufferBytes(nil))
	if i > 0 && (head.Type() != ipc.MessageRecordBatch || compressed(m.meta)) {
		return m, nil, fmt.Errorf("%w: golden outputs: message %d is not a plain record batch (F8)", pack.ErrCorrupt, i)
	}
	if n = head.BodyLen(); n < 0 || n > int64(len(data)) {
		return m, nil, fmt.Errorf("%w: golden outputs: message %d ends after the stream (F8)", pack.ErrCorrupt, i)
	}
	m.body = data[:n]
	return m, data[n:], nil
}

// compressed reports whether a record batch has the field `compression` (field 3 of RecordBatch, which is field 2 of
// Message). Decompression could request unbounded memory.
func compressed(meta []byte) bool {
	header := tableField(meta, int(binary.LittleEndian.Uint32(meta)), 2)
	batch := header + int(binary.LittleEndian.Uint32(meta[header:]))
	return tableField(meta, batch, 3) != 0
}

// tableField returns the position of a field of the flatbuffer table at pos; 0 = absent.
func tableField(b []byte, pos, field int) int {
	vtable := pos - int(int32(binary.LittleEndian.Uint32(b[pos:])))
	at := 4 + 2*field
	if at >= int(binary.LittleEndian.Uint16(b[vtable:])) {
		return 0
	}
	if offset := int(binary.LittleEndian.Uint16(b[vtable+at:])); offset != 0 {
		return pos + offset
	}
	return 0
}

// reader passes the messages to the Arrow library.
type reader struct{ rest []message }

func (r *reader) Message() (*ipc.Message, error) {
	if len(r.rest) == 0 {
		return nil, io.EOF
	}
	m := r.rest[0]
	r.rest = r.rest[1:]
	return ipc.NewMessage(memory.NewBufferBytes(m.meta), memory.NewBufferBytes(m.body)), nil
}

func (r *reader) Retain()  {}
func (r *reader) Release() {}

// limited is an allocator with a total limit, since buffers of a batch may overlap in a hostile stream.
type limited struct {
	memory.Allocator
	left int
}

func (l *limited) Allocate(n int) []byte {
	if l.left -= n; n < 0 || l.left < 0 {
		panic("buffers larger than the stream")
	}
	return l.Allocator.Allocate(n)
}

func (l *limited) Reallocate(n int, b []byte) []byte {
	if l.left -= n; n < 0 || l.left < 0 {
		panic("buffers larger than the stream")
	}
	return l.Allocator.Reallocate(n, b)
}

func read(messages []message) (*Record, error) {
	size := 0
	for _, m := range messages {
		size += len(m.body) + 1024
	}
	rd, err := ipc.NewReaderFromMessageReader(&reader{messages}, ipc.WithSchema(schema()),
		ipc.WithAllocator(&limited{memory.NewGoAllocator(), 2 * size}))
	if err != nil {
		return nil, fmt.Errorf("%w: golden outputs: %v (F8)", pack.ErrCorrupt, err)
	}
	r := &Record{}
	for rd.Next() {
		rows := rd.Record()
		if int64(rows.NumRows()) > int64(size) {
			return nil, fmt.Errorf("%w: golden outputs: %d rows in %d bytes (F8)", pack.ErrCorrupt,
				rows.NumRows(), size)
		}
		for i := range int(rows.NumRows()) {
			r.add(row{rows, i})
		}
	}
	if err := rd.Err(); err != nil {
		return nil, fmt.Errorf("%w: golden outputs: %v (F8)", pack.ErrCorrupt, err)
	}
	return r, nil
}

// row is a row of a record batch. Its methods panic on missing values; Decode recovers.
type row struct {
	arrow.Record
	i int
}

func (r row) text(col int) string {
	if r.Column(col).IsNull(r.i) {
		return ""
	}
	return r.Column(col).(*array.String).Value(r.i)
}

func (r row) int32(col int) int32 { return r.Column(col).(*array.Int32).Value(r.i) }

// list returns the values of a list column and the range of this row.
func (r row) list(col int) (values arrow.Array, from, to int64) {
	l := r.Column(col).(*array.List)
	from, to = l.ValueOffsets(r.i)
	return l.ListValues(), from, to
}

func (r row) int32s(col int) []int32 {
	v, from, to := r.list(col)
	return append([]int32{}, v.(*array.Int32).Int32Values()[from:to]...)
}

func (r row) float32s(col int) []float32 {
	v, from, to := r.list(col)
	return append([]float32{}, v.(*array.Float32).Float32Values()[from:to]...)
}

// add appends a row to the record. Columns that it ignores must be null, otherwise the record encodes differently.
func (r *Record) add(x row) {
	seed := x.Column(2).(*array.Uint64).Value(x.i)
	if x.text(0) == kindProduct {
		r.Products = append(r.Products, Product{
			Tensor:  x.text(1),
			Seed:    seed,
			Vectors: int(x.int32(3)),
			Rows:    x.int32s(4),
			Values:  x.int32s(5),
			Digest:  x.text(6),
			Expert:  x.int32(17),
		})
		return
	}
	if x.text(0) == kindText {
		r.Texts = append(r.Texts, Text{Name: x.text(1), Text: x.text(14),
			Plain:  x.Column(15).(*array.Boolean).Value(x.i),
			Tokens: x.int32s(16)})
		return
	}
	r.Logits = append(r.Logits, Logits{
		Sequence: int(x.int32(7)),
		Seed:     seed,
		Position: x.int32(8),
		Token:    x.int32(9),
		Given:    x.Column(10).(*array.Boolean).Value(x.i),
		Digest:   x.text(11), TopTokens: x.int32s(12), TopLogits: x.float32s(13),
	})
}
