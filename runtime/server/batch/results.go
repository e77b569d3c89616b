package batch

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/lowpack/lowpack/internal/textcolumns"
)

// resultFile writes a file of results.
type resultFile interface {
	add(line []byte) error // a line of the output with its end
	close() error
}

// newResultFile writes what the name of the file says: lines of JSON, or a Parquet file.
func newResultFile(path string, w io.Writer) resultFile {
	if textcolumns.Named(path) {
		return newResultTable(w)
	}
	return plain{bufio.NewWriterSize(w, 1<<20)}
}

// plain writes lines as they are.
type plain struct{ w *bufio.Writer }

func (p plain) add(line []byte) error { _, err := p.w.Write(line); return err }

func (p plain) close() error { return p.w.Flush() }

// resultRow is a row of a table of results, with the keys of a line of the output except error, which is null there.
type resultRow struct {
	ID       string `parquet:"id"`
	CustomID string `parquet:"custom_id"`
	Response struct {
		Status    int32    `parquet:"status_code"`
		RequestID string   `parquet:"request_id"`
		Body      string   `parquet:"body"` // JSON
		Ignored   []string `parquet:"x_lowpack_ignored,list"`
	} `parquet:"response"`
}

// Bounds of a group of rows: the bytes of its lines and their number.
const (
	groupBytes = 16 << 20
	groupRows  = 1 << 16
)

// tableVersion changes with the bytes that a table of the same results has.
const tableVersion = "1"

// resultTable writes a Parquet file. Its bytes are a function of the lines.
type resultTable struct {
	w           *parquet.GenericWriter[resultRow]
	bytes, rows int // of the group
}

func newResultTable(w io.Writer) *resultTable {
	return &resultTable{w: parquet.NewGenericWriter[resultRow](w, parquet.Compression(&parquet.Zstd),
		// Else headers and the footer have whole bodies, uncompressed.
		parquet.DataPageStatistics(false), parquet.SkipPageBounds("response", "body"),
		parquet.CreatedBy("lowpack batch", tableVersion, ""))}
}

func (t *resultTable) add(line []byte) error {
	var v result
	if err := json.Unmarshal(line, &v); err != nil {
		return err
	}
	r := resultRow{ID: v.ID, CustomID: v.CustomID}
	r.Response.Status, r.Response.RequestID = int32(v.Response.Status), v.Response.RequestID
	r.Response.Body, r.Response.Ignored = string(v.Response.Body), v.Response.Ignored
	if _, err := t.w.Write([]resultRow{r}); err != nil {
		return err
	}
	if t.bytes, t.rows = t.bytes+len(line), t.rows+1; t.bytes < groupBytes && t.rows < groupRows {
		return nil
	}
	t.bytes, t.rows = 0, 0
	return t.w.Flush()
}

func (t *resultTable) close() error { return t.w.Close() }
