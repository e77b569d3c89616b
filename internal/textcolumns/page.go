package textcolumns

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"

	"github.com/lowpack/lowpack/pack"
)

// plainDictionary is the encoding of dictionaries, and of codes in them, in older files.
const plainDictionary format.Encoding = 2

// maxHeader bounds the header of a page, which may hold two of its values.
const maxHeader = maxPage

// chunk reads the pages of a column in a row group, one after another.
func (f *File) chunk(c *Column, of *format.ColumnChunk, do func(Value) error) error {
	m := &of.MetaData
	if of.FilePath != "" {
		return unsupported("its values are in another file, %q", of.FilePath)
	}
	if m.Type != format.ByteArray || !slices.Equal(m.PathInSchema, c.Path) {
		return corrupt("it is described as %q of type %v", m.PathInSchema, m.Type)
	}
	from, n := m.DataPageOffset, m.TotalCompressedSize
	if d := m.DictionaryPageOffset; d > 0 && d < from {
		from = d
	}
	if from < 0 || n < 0 || from > f.size || n > f.size-from {
		return corrupt("%d bytes from %d on, in a file of %d", n, from, f.size)
	}
	if err := f.spend(n); err != nil {
		return err
	}
	r := pages{file: f, column: c, codec: m.Codec, stored: io.NewSectionReader(f.r, from, n)}
	for count := int64(0); count < m.NumValues; {
		n, err := r.next(do)
		if err != nil {
			return err
		}
		count += int64(n)
		if count > m.NumValues {
			return corrupt("more values than the %d that it says", m.NumValues)
		}
	}
	return nil
}

// pages reads one page after another.
type pages struct {
	file       *File
	column     *Column
	codec      format.CompressionCodec
	stored     *io.SectionReader
	at         int64 // where the next page begins
	dictionary [][]byte
}

// header reads the header of the next page. Its length is found by trying.
func (p *pages) header() (h format.PageHeader, err error) {
	left := p.stored.Size() - p.at
	for window := int64(4 << 10); ; window *= 8 {
		b, err := p.read(min(window, left, maxHeader))
		if err != nil {
			return h, err
		}
		rest, err := decode(b, &h)
		if errors.Is(err, errShort) && len(b) == int(window) {
			continue
		}
		if err != nil {
			return h, badHeader("header of a page", err)
		}
		p.at += int64(len(b) - len(rest))
		return h, nil
	}
}

// read returns n bytes from the next page on.
func (p *pages) read(n int64) ([]byte, error) {
	b := make([]byte, n)
	_, err := p.stored.ReadAt(b, p.at)
	if n == 0 {
		err = nil // the end
	}
	return b, err
}

// next reads a page, and returns its number of values.
func (p *pages) next(do func(Value) error) (int, error) {
	h, err := p.header()
	if err != nil {
		return 0, err
	}
	size, whole, left := int(h.CompressedPageSize), int(h.UncompressedPageSize), p.stored.Size()-p.at
	if size < 0 || whole < 0 || int64(size) > left {
		return 0, corrupt("a page of %d bytes, %d decompressed, where %d are left", size, whole, left)
	}
	if most := max(size, whole); most > maxPage {
		return 0, fmt.Errorf("%w: a page of %d bytes; at most %d are read", pack.ErrLimit, most, maxPage)
	}
	if err := p.file.spend(int64(whole)); err != nil {
		return 0, err
	}
	data, err := p.read(int64(size))
	if err != nil {
		return 0, err
	}
	p.at += int64(size)
	if sum := crc32.ChecksumIEEE(data); sum != uint32(h.CRC) && h.CRC != 0 && !p.file.unsummed { // 0: none
		return 0, corrupt("a page with CRC %08x, which says %08x", sum, uint32(h.CRC))
	}
	switch h.Type {
	case format.DictionaryPage:
		return 0, p.readDictionary(&h.DictionaryPageHeader.V, data, whole)
	case format.DataPage:
		return p.readData(&h.DataPageHeader.V, data, whole, do)
	case format.DataPageV2:
		return p.readData2(&h.DataPageHeaderV2.V, data, whole, do)
	}
	return 0, unsupported("a page of type %v", h.Type)
}

// countOf checks a number of values.
func countOf(n int32) (int, error) {
	if n < 0 {
		return 0, corrupt("%d values", n)
	}
	if n > maxValues {
		return 0, fmt.Errorf("%w: a page of %d values; at most %d are read", pack.ErrLimit, n, maxValues)
	}
	return int(n), nil
}

func (p *pages) readDictionary(h *format.DictionaryPageHeader, data []byte, whole int) error {
	n, err := countOf(h.NumValues)
	if err != nil {
		return err
	}
	if p.dictionary != nil {
		return corrupt("two dictionaries")
	}
	if h.Encoding != format.Plain && h.Encoding != plainDictionary {
		return unsupported("a dictionary in encoding %v", h.Encoding)
	}
	if data, err = p.decompress(data, whole); err == nil {
		p.dictionary, err = plain(data, n)
	}
	return err
}

// readData reads a data page of the first version: all of it is compressed, and levels have their lengths in front.
func (p *pages) readData(h *format.DataPageHeader, data []byte, whole int, do func(Value) error) (int, error) {
	n, err := countOf(h.NumValues)
	if err != nil {
		return 0, err
	}
	if data, err = p.decompress(data, whole); err != nil {
		return 0, err
	}
	levels := func(most int, encoding format.Encoding) (list []uint32, err error) {
		if most == 0 {
			return make([]uint32, n), nil
		}
		if encoding != format.RLE {
			return nil, unsupported("levels in encoding %v", encoding)
		}
		if len(data) < 4 || int64(binary.LittleEndian.Uint32(data)) > int64(len(data)-4) {
			return nil, corrupt("levels that end early")
		}
		size := int(binary.LittleEndian.Uint32(data))
		list, err = hybrid(data[4:4+size], widthOf(most), n)
		data = data[4+size:]
		return list, err
	}
	repeated, err := levels(p.column.Lists, h.RepetitionLevelEncoding)
	if err != nil {
		return 0, err
	}
	defined, err := levels(p.column.depth, h.DefinitionLevelEncoding)
	if err != nil {
		return 0, err
	}
	return n, p.values(h.Encoding, data, repeated, defined, do)
}

// readData2 reads a data page of the second version: levels are in front, uncompressed.
func (p *pages) readData2(h *format.DataPageHeaderV2, data []byte, whole int, do func(Value) error) (int, error) {
	n, err := countOf(h.NumValues)
	if err != nil {
		return 0, err
	}
	r, d := int64(h.RepetitionLevelsByteLength), int64(h.DefinitionLevelsByteLength)
	if r < 0 || d < 0 || r+d > int64(min(len(data), whole)) {
		return 0, corrupt("levels of %d and %d bytes in a page of %d", r, d, len(data))
	}
	repeated, err := hybrid(data[:r], widthOf(p.column.Lists), n)
	if err != nil {
		return 0, err
	}
	defined, err := hybrid(data[r:r+d], widthOf(p.column.depth), n)
	if err != nil {
		return 0, err
	}
	data, whole = data[r+d:], whole-int(r+d)
	if !h.IsCompressed.Valid || h.IsCompressed.V {
		if data, err = p.decompress(data, whole); err != nil {
			return 0, err
		}
	}
	return n, p.values(h.Encoding, data, repeated, defined, do)
}

// values hands on the values of a page by their levels.
func (p *pages) values(e format.Encoding, data []byte, repeated, defined []uint32, do func(Value) error) error {
	n := 0
	for i, level := range defined {
		if int(level) > p.column.depth || int(repeated[i]) > p.column.Lists {
			return corrupt("levels beyond those of the column")
		}
		if int(level) == p.column.depth {
			n++
		}
	}
	texts, err := p.texts(e, data, n)
	if err != nil {
		return err
	}
	for i, level := range defined {
		v := Value{First: repeated[i] == 0, Null: int(level) < p.column.depth}
		if !v.Null {
			v.Text, texts = texts[0], texts[1:]
			p.file.spent -= int64(len(v.Text))
		}
		if err := do(v); err != nil {
			return err
		}
	}
	return nil
}

// texts decodes n values.
func (p *pages) texts(e format.Encoding, data []byte, n int) ([][]byte, error) {
	switch e {
	case format.Plain:
		return plain(data, n)
	case format.DeltaLengthByteArray:
		return measured(data, n)
	case plainDictionary, format.RLEDictionary:
		return p.coded(data, n)
	}
	return nil, unsupported("encoding %v; read are PLAIN, RLE_DICTIONARY and DELTA_LENGTH_BYTE_ARRAY", e)
}

// coded looks up n values in the dictionary.
func (p *pages) coded(data []byte, n int) ([][]byte, error) {
	if n == 0 {
		return nil, nil
	}
	if len(data) == 0 || data[0] > 32 {
		return nil, corrupt("codes without a width")
	}
	codes, err := hybrid(data[1:], int(data[0]), n)
	if err != nil {
		return nil, err
	}
	texts := make([][]byte, n)
	for i, code := range codes {
		if int64(code) >= int64(len(p.dictionary)) {
			return nil, corrupt("code %d in a dictionary of %d values", code, len(p.dictionary))
		}
		texts[i] = p.dictionary[code]
	}
	return texts, nil
}

// plain cuts data into n texts, each with its length in front.
func plain(data []byte, n int) ([][]byte, error) {
	texts := make([][]byte, n)
	for i := range texts {
		if len(data) < 4 || int64(binary.LittleEndian.Uint32(data)) > int64(len(data)-4) {
			return nil, corrupt("value %d of %d ends early", i, n)
		}
		end := 4 + int(binary.LittleEndian.Uint32(data))
		texts[i], data = data[4:end], data[end:]
	}
	return texts, nil
}

// decompress returns exactly as many bytes as the page is said to have.
func (p *pages) decompress(data []byte, whole int) (b []byte, err error) {
	switch p.codec {
	case format.Uncompressed:
		b = data
	case format.Snappy:
		if n, err := snappy.DecodedLen(data); err != nil || n != whole {
			return nil, corrupt("%s of %d bytes where there should be %d (%v)", p.codec, n, whole, err)
		}
		b, err = snappy.Decode(nil, data)
	case format.Gzip:
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			b, err = io.ReadAll(io.LimitReader(r, int64(whole)+1))
		}
	case format.Zstd:
		var r *zstd.Decoder
		r, err = zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxPage))
		if err == nil {
			b, err = io.ReadAll(io.LimitReader(r, int64(whole)+1))
			r.Close()
		}
	default:
		return nil, unsupported("codec %v; read are SNAPPY, GZIP and ZSTD, or none", p.codec)
	}
	if err != nil {
		return nil, corrupt("%v: %v", p.codec, err)
	}
	if len(b) != whole {
		return nil, corrupt("a page of %d bytes is said to have %d", len(b), whole)
	}
	return b, nil
}
