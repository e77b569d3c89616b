package textcolumns

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/format"

	"github.com/lowpack/lowpack/pack"
)

// line is a row of the tests: nested and beside columns that are not read.
type line struct {
	ID       int64     `parquet:"id"`
	Plain    string    `parquet:"plain,plain"`
	Text     *string   `parquet:"text,optional"`
	Messages []message `parquet:"messages,list"`
	Score    float64   `parquet:"score"`
}

type message struct {
	Role    string  `parquet:"role,dict"`
	Content *string `parquet:"content,optional"`
}

// lines have texts that are null, empty, equal and long, and lists that are empty.
func lines() (list []line) {
	for i := range 300 {
		l := line{ID: int64(i), Plain: fmt.Sprint("plain ", i), Score: float64(i)}
		text := strings.Repeat(fmt.Sprintf("text %d ", i%7), i%50)
		if i%11 != 0 {
			l.Text = &text
		}
		for k := range i % 4 {
			m := message{Role: []string{"user", "assistant"}[k%2]}
			if i%13 != 0 {
				m.Content = &text
			}
			l.Messages = append(l.Messages, m)
		}
		list = append(list, l)
	}
	return list
}

// file writes lines in three row groups.
func file(t testing.TB, options ...parquet.WriterOption) []byte {
	return fileOf(t, lines(), options...)
}

func fileOf(t testing.TB, all []line, options ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[line](&b, options...)
	for i := 0; i < len(all); i += len(all) / 3 {
		if _, err := w.Write(all[i : i+len(all)/3]); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// maxRead bounds what the tests read of a file.
const maxRead = 256 << 20

func section(b []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b)))
}

// errEnough ends reading: few bytes can be many values.
var errEnough = errors.New("enough values")

// read returns all values of the columns of texts, by name, but for those beyond the first 10,000.
func read(b []byte) (map[string][]string, error) {
	f, err := Open(bytes.NewReader(b), int64(len(b)), maxRead)
	if err != nil {
		return nil, err
	}
	return f.read()
}

func (f *File) read() (map[string][]string, error) {
	got := map[string][]string{}
	for i := range f.Columns {
		c := &f.Columns[i]
		if !c.Texts {
			continue
		}
		err := f.Each(c, func(v Value) error {
			if len(got[c.Name()]) == 10000 {
				return errEnough
			}
			got[c.Name()] = append(got[c.Name()], shown(v.First, v.Null, string(v.Text)))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return got, nil
}

func shown(first, null bool, text string) string { return fmt.Sprint(first, null, text) }

// wanted is what read returns of lines.
func wanted() map[string][]string {
	const text, role, content = "text", "messages.list.element.role", "messages.list.element.content"
	want := map[string][]string{}
	add := func(name string, first bool, s *string) {
		if s == nil {
			s = new(string)
			want[name] = append(want[name], shown(first, true, ""))
			return
		}
		want[name] = append(want[name], shown(first, false, *s))
	}
	for _, l := range lines() {
		add("plain", true, &l.Plain)
		add(text, true, l.Text)
		if len(l.Messages) == 0 {
			add(role, true, nil)
			add(content, true, nil)
		}
		for k, m := range l.Messages {
			add(role, k == 0, &m.Role)
			add(content, k == 0, m.Content)
		}
	}
	return want
}

// TestColumns: the values of all codecs, both versions of pages, pages of any size and dictionaries, as written.
func TestColumns(t *testing.T) {
	want := wanted()
	for name, codec := range map[string]compress.Codec{"none": &parquet.Uncompressed, "snappy": &parquet.Snappy,
		"gzip": &parquet.Gzip, "zstd": &parquet.Zstd} {
		for _, version := range []int{1, 2} {
			for _, page := range []int{100, 1 << 20} {
				b := file(t, parquet.Compression(codec), parquet.DataPageVersion(version), parquet.PageBufferSize(page))
				if got, err := read(b); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s, version %d, pages of %d: %v", name, version, page, err)
				}
			}
		}
	}
}

// TestRefused: what is not read is named.
func TestRefused(t *testing.T) {
	type delta struct {
		Text string `parquet:"text,delta"`
	}
	var b bytes.Buffer
	if err := parquet.Write(&b, []delta{{"one"}, {"two"}}); err != nil {
		t.Fatal(err)
	}
	for says, file := range map[string][]byte{
		"encoding DELTA_BYTE_ARRAY": b.Bytes(),
		"codec LZ4_RAW":             file(t, parquet.Compression(&parquet.Lz4Raw)),
		"codec BROTLI":              file(t, parquet.Compression(&parquet.Brotli)),
		"an encrypted file":         []byte("PARE0000\x04\x00\x00\x00PARE"),
	} {
		if _, err := read(file); !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
	}
}

// TestLies: a file that says that it is large is refused before memory is taken for it.
func TestLies(t *testing.T) {
	footer := func(b ...byte) []byte {
		b = append([]byte("PAR1"), b...)
		return append(binary.LittleEndian.AppendUint32(b, uint32(len(b)-4)), "PAR1"...)
	}
	page := func(header ...byte) error {
		p := pages{file: &File{most: 1 << 40}, column: &Column{}, stored: section(append(header, make([]byte, 64)...))}
		_, err := p.next(func(Value) error { return nil })
		return err
	}
	open := func(b []byte) error {
		_, err := Open(bytes.NewReader(b), int64(len(b)), maxRead)
		return err
	}
	const list = 1<<4 | thriftList // of field 1
	var deep []byte
	for range 40 {
		deep = append(deep, 1<<4|thriftStruct)
	}
	many := []byte{0xfe, 0xff, 0xff, 0xff, 0x0f} // 2³¹ − 1 in zigzag
	for name, c := range map[string]struct {
		err error
		is  error
	}{
		"an empty file":   {open(nil), pack.ErrCorrupt},
		"another file":    {open([]byte("hello, world")), pack.ErrCorrupt},
		"a footer beyond": {open([]byte("PAR1\xff\xff\xff\x7fPAR1")), pack.ErrCorrupt},
		"a list of 2^31 structs": {open(footer(list, 0xf0|thriftStruct, 0xff, 0xff, 0xff, 0xff, 7, 0)),
			pack.ErrCorrupt},
		"a list of 2^19 structs": {open(footer(append([]byte{list, 0xf0 | thriftStruct, 0x80, 0x80, 0x20},
			make([]byte, 1<<19+1)...)...)), pack.ErrLimit},
		"nested structs": {open(footer(append(deep, make([]byte, 50)...)...)), pack.ErrCorrupt},
		"a map":          {open(footer(1<<4|thriftMap, 0, 0)), pack.ErrCorrupt},
		"a page of 2^31 bytes": {page(append(append([]byte{0x15, 0, 0x15}, many...),
			0x15, 8, 0x2c, 0x15, 2, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0)...), pack.ErrLimit},
		"2^31 values": {page(append(append([]byte{0x15, 0, 0x15, 8, 0x15, 8, 0x2c, 0x15}, many...),
			0x15, 0, 0x15, 6, 0x15, 6, 0, 0)...), pack.ErrLimit},
	} {
		if !errors.Is(c.err, c.is) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	for _, run := range [][]byte{{}, {0}, {0xff, 0xff, 0xff, 0xff, 0xff}, {3}, {2}} {
		if got, err := hybrid(run, 3, 5); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%v: %v, %v", run, got, err)
		}
	}
	for _, b := range [][]byte{{}, {0, 4, 5, 0}, {128, 1, 4, 5, 0}, {128, 1, 0, 5, 0},
		{128, 1, 4, 5, 0, 0, 255, 0, 0, 0}, {128, 1, 4, 4, 0, 0, 0, 0, 0, 0}} {
		if got, _, err := deltas(b, 5); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%v: %v, %v", b, got, err)
		}
	}
	for _, b := range [][]byte{{128, 1, 4, 1, 1}, {128, 1, 4, 1, 6, 9}} { // lengths −1 and 3
		if got, err := measured(b, 1); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%v: %v, %v", b, got, err)
		}
	}
	if got, err := hybrid([]byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 6}, 3, 5); err != nil || len(got) != 5 || got[4] != 6 {
		t.Errorf("a long run: %v, %v", got, err)
	}
}

// TestBombs: a page that decompresses to more than it says ends there.
func TestBombs(t *testing.T) {
	zeros := make([]byte, 64<<20)
	for _, codec := range []compress.Codec{&parquet.Snappy, &parquet.Gzip, &parquet.Zstd} {
		small, err := codec.Encode(nil, zeros)
		if err != nil {
			t.Fatal(err)
		}
		p := pages{codec: codec.CompressionCodec()}
		if b, err := p.decompress(small, 1000); !errors.Is(err, pack.ErrCorrupt) || len(b) > 0 {
			t.Errorf("%v: %d bytes, %v", codec, len(b), err)
		}
	}
}

// TestManyPages: pages without values, which are small and decompress to much, end at a limit of the file.
func TestManyPages(t *testing.T) {
	zeros := make([]byte, 1<<20)
	small, err := parquet.Zstd.Encode(nil, zeros)
	if err != nil {
		t.Fatal(err)
	}
	header := []byte{0x15, 0, 0x15} // a data page of 1 MiB, compressed, of no values in encoding PLAIN
	header = binary.AppendUvarint(header, uint64(2*len(zeros)))
	header = binary.AppendUvarint(append(header, 0x15), uint64(2*len(small)))
	page := append(append(header, 0x2c, 0x15, 0, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0), small...)
	p := pages{file: &File{most: maxRead}, column: &Column{}, codec: format.Zstd,
		stored: section(bytes.Repeat(page, 300))}
	for n := range 300 {
		if _, err := p.next(func(Value) error { return nil }); err == nil {
			continue
		} else if !errors.Is(err, pack.ErrLimit) || n != maxRead>>20 {
			t.Errorf("page %d: %v", n, err)
		}
		return
	}
	t.Error("300 MiB were decompressed")
}

// TestSums: a bit that is wrong in a page, of texts or of a dictionary, is noticed by the CRC, whatever it stands for.
func TestSums(t *testing.T) {
	for version := 1; version <= 2; version++ {
		b := file(t, parquet.DataPageVersion(version), parquet.Compression(&parquet.Uncompressed),
			parquet.DataPageStatistics(false), parquet.SkipPageBounds("plain"))
		for _, text := range []string{"plain 1", "assistant"} {
			at := bytes.Index(b, []byte(text))
			if at < 0 {
				t.Fatal(text)
			}
			b[at] ^= 1
			if _, err := read(b); !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), "CRC") {
				t.Errorf("version %d, %s: %v", version, text, err)
			}
			b[at] ^= 1
		}
		if _, err := read(b); err != nil {
			t.Error(err)
		}
	}
}

// FuzzOpen: any file is read, or refused with an error of a known kind.
func FuzzOpen(f *testing.F) {
	for version := 1; version <= 2; version++ {
		for _, codec := range []compress.Codec{&parquet.Snappy, &parquet.Uncompressed} {
			f.Add(fileOf(f, lines()[:9], parquet.DataPageVersion(version), parquet.Compression(codec)))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Open(bytes.NewReader(b), int64(len(b)), maxRead)
		if err == nil {
			file.unsummed = true // else no page is read but those of the seeds
			_, err = file.read()
		}
		if err != nil && !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrUnsupported) &&
			!errors.Is(err, pack.ErrLimit) && !errors.Is(err, errEnough) {
			t.Errorf("an error of no class: %v", err)
		}
	})
}

// TestManyTexts: texts are read however many there are, and whatever they were compressed to.
func TestManyTexts(t *testing.T) {
	type pair struct {
		Plain string `parquet:"plain,plain"`
		Coded string `parquet:"coded,dict"`
	}
	long := strings.Repeat("the same again ", 5000)
	var b bytes.Buffer
	w := parquet.NewGenericWriter[pair](&b, parquet.Compression(&parquet.Zstd), parquet.PageBufferSize(1<<16),
		parquet.DataPageStatistics(false),
		parquet.SkipPageBounds("plain"),
		parquet.SkipPageBounds("coded"))
	for range 200 {
		if _, err := w.Write([]pair{{long, long}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(bytes.NewReader(b.Bytes()), int64(b.Len()), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Columns {
		n := 0
		err := f.Each(&f.Columns[i], func(v Value) error { n += len(v.Text); return nil })
		if err != nil || n != 200*len(long) {
			t.Errorf("%s: %d bytes, %v", f.Columns[i].Name(), n, err)
		}
	}
}

// TestOtherRows: a column with another number of rows than its group is refused, because rows would shift.
func TestOtherRows(t *testing.T) {
	b := file(t)
	for name, more := range map[string]int64{"a row less": -1, "a row more": 1} {
		f, err := Open(bytes.NewReader(b), int64(len(b)), maxRead)
		if err != nil {
			t.Fatal(err)
		}
		f.meta.RowGroups[1].NumRows += more
		for i := range f.Columns {
			if c := &f.Columns[i]; c.Texts {
				if err := f.Each(c, func(Value) error { return nil }); !errors.Is(err, pack.ErrCorrupt) {
					t.Errorf("%s, column %s: %v", name, c.Name(), err)
				}
			}
		}
	}
}
