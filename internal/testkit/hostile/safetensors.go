package hostile

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
)

// frame puts the length before a header and data after it.
func frame(header string, data []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

// header is a file with that header and the given number of bytes of data.
func header(text string, data int) []byte { return frame(text, bytes.Repeat([]byte{0x3f}, data)) }

const (
	four   = `"dtype":"U8","shape":[4],"data_offsets":[0,4]` // U8 [4] at the start of the data
	behind = `"dtype":"U8","shape":[4],"data_offsets":[4,8]` // the same, after it
)

// shaped is a file of one U8 tensor without data, its shape spelled as given.
func shaped(shape string) []byte {
	return header(`{"a":{"dtype":"U8","shape":`+shape+`,"data_offsets":[0,0]}}`, 0)
}

// weights is a file of one BF16 matrix with an odd element in row 5, column 7.
func weights(pattern uint16) []byte {
	data := bytes.Repeat([]byte{0x80, 0x3f, 0x80, 0xbf}, 16*32/2)
	binary.LittleEndian.PutUint16(data[2*(5*32+7):], pattern)
	return frame(`{"a.weight":{"dtype":"BF16","shape":[16,32],"data_offsets":[0,1024]}}`, data)
}

// repeated joins n texts with commas.
func repeated(n int, text func(i int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(text(i))
	}
	return b.String()
}

func empty(i int) string {
	const hex = "0123456789abcdef"
	name := []byte{hex[i>>16&15], hex[i>>12&15], hex[i>>8&15], hex[i>>4&15], hex[i&15]}
	return `"` + string(name) + `":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`
}

type container struct {
	id    string
	class Class
	note  string
	file  func() []byte
	table []string
}

// containers are the cases of the safetensors file itself.
func containers() []Case {
	cases := []Case{{
		ID:    "S04",
		Group: Container,
		Class: Limit,
		Note:  "a header of 16 MiB and one byte",
		Big:   true,
		build: sparseHeader,
	}}
	for _, c := range containerTable {
		cases = append(cases, Case{
			ID: c.id, Group: Container, Class: c.class, Note: c.note, Table: c.table,
			Big:   c.id == "S20" || c.id == "S30b" || c.id == "S31",
			build: asFile(c.file),
		})
	}
	return cases
}

// asFile is a case that consists of one file.
func asFile(file func() []byte) func(dir string) (string, error) {
	return func(dir string) (string, error) {
		return filepath.Join(dir, "model.safetensors"), write(dir, "model.safetensors", file())
	}
}

// sparseHeader is one byte over the limit, all of it a hole.
func sparseHeader(dir string) (string, error) {
	const n = 16<<20 + 1
	path := filepath.Join(dir, "model.safetensors")
	if err := write(dir, "model.safetensors", binary.LittleEndian.AppendUint64(nil, n)); err != nil {
		return "", err
	}
	return path, os.Truncate(path, 8+n)
}

var containerTable = []container{
	{"S00", Accept, "control: two tensors", func() []byte { return header(`{"a":{`+four+`},"b":{`+behind+`}}`, 8) },
		[]string{"a U8 [4] [0, 4)", "b U8 [4] [4, 8)"}},
	{"S01", Syntax, "7 bytes", func() []byte { return []byte("\x02\x00\x00\x00\x00\x00\x00") }, nil},
	{"S02", Limit, "a header of 2⁶⁴−1 bytes",
		func() []byte { return append(bytes.Repeat([]byte{0xff}, 8), "{}"...) }, nil},
	{"S03", Syntax, "a header as long as the file, which leaves no room for its length",
		func() []byte { return append([]byte{10, 0, 0, 0, 0, 0, 0, 0}, "{}"...) }, nil},
	{"S05", Syntax, "a blank before '{'", func() []byte { return header(` {"a":{`+four+`}}`, 4) }, nil},
	{"S06a", Syntax, "a tab after the JSON", func() []byte { return header(`{"a":{`+four+"}}\t", 4) }, nil},
	{"S06b", Syntax, "a newline after the JSON", func() []byte { return header(`{"a":{`+four+"}}\n", 4) }, nil},
	{"S07", Syntax, "a second JSON value", func() []byte { return header(`{"a":{`+four+`}}{}`, 4) }, nil},
	{"S08", Structure, "a name twice, with other types", func() []byte {
		return header(`{"a":{`+four+`},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4)
	}, nil},
	{"S09", Structure, "the key dtype twice", func() []byte { return header(`{"a":{"dtype":"I8",`+four+`}}`, 4) }, nil},
	{"S10", Syntax, "a name with the byte FF", func() []byte { return header("{\"a\xff\":{"+four+`}}`, 4) }, nil},
	{"S11", Syntax, "two names that differ in bad bytes only",
		func() []byte { return header("{\"a\xff\":{"+four+"},\"a\xfe\":{"+behind+`}}`, 8) }, nil},
	{"S12", Syntax, "a name with a lone surrogate", func() []byte { return header(`{"\ud800":{`+four+`}}`, 4) }, nil},
	{"S13", Syntax, "a name with NUL", func() []byte { return header(`{"a\u0000b":{`+four+`}}`, 4) }, nil},
	{"S14", Structure, "an empty name", func() []byte { return header(`{"":{`+four+`}}`, 4) }, nil},
	{"S15", Limit, "a name of 513 bytes",
		func() []byte { return header(`{"`+strings.Repeat("n", 513)+`":{`+four+`}}`, 4) }, nil},
	{"S16", Accept, "a name like a path; nothing uses it as one",
		func() []byte { return header(`{"../../x":{`+four+`}}`, 4) }, []string{"../../x U8 [4] [0, 4)"}},
	{"S17", Structure, "2³² × 2³² elements in no bytes",
		func() []byte { return shaped(`[4294967296,4294967296]`) }, nil},
	{"S18a", Structure, "dimensions that overflow behind a zero",
		func() []byte { return shaped(`[0,18446744073709551615,18446744073709551615]`) }, nil},
	{"S18b", Structure, "dimensions that overflow before a zero",
		func() []byte { return shaped(`[18446744073709551615,18446744073709551615,0]`) }, nil},
	{"S18c", Structure, "dimensions of 63 bits that overflow behind a zero",
		func() []byte { return shaped(`[0,9223372036854775807,3]`) }, nil},
	{"S19", Limit, "rank 9", func() []byte { return shaped(`[1,1,1,1,1,1,1,1,0]`) }, nil},
	{"S20", Limit, "a tensor with 49 million dimensions", func() []byte {
		return header(`{"a":{"dtype":"U8","data_offsets":[0,0],"shape":[`+strings.Repeat("0,", 49e6-1)+`0]}}`, 0)
	}, nil},
	{"S20b", Limit, "a tensor with 20,000 dimensions",
		func() []byte { return shaped("[" + strings.Repeat("0,", 19999) + "0]") }, nil},
	{"S21a", Syntax, "dimension 4.0", func() []byte { return shaped(`[4.0]`) }, nil},
	{"S21b", Syntax, "dimension −4", func() []byte { return shaped(`[-4]`) }, nil},
	{"S21c", Syntax, "dimension 1e3", func() []byte { return shaped(`[1e3]`) }, nil},
	{"S21d", Syntax, "dimension 04", func() []byte { return shaped(`[04]`) }, nil},
	{"S21e", Syntax, "dimension null", func() []byte { return shaped(`[null]`) }, nil},
	{"S22", Structure, "offsets the wrong way round",
		func() []byte { return header(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}}`, 4) }, nil},
	{"S23", Structure, "a hole of 4 bytes between tensors", func() []byte {
		return header(`{"a":{`+four+`},"b":{"dtype":"U8","shape":[4],"data_offsets":[8,12]}}`, 12)
	}, nil},
	{"S24", Structure, "tensors that overlap", func() []byte {
		return header(`{"a":{`+four+`},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}`, 6)
	}, nil},
	{"S25", Accept, "an empty tensor at the offset of another", func() []byte {
		return header(`{"b":{`+behind+`},"e":{"dtype":"F32","shape":[0,3],"data_offsets":[4,4]},"a":{`+four+`}}`, 8)
	}, []string{"a U8 [4] [0, 4)", "e F32 [0 3] [4, 4)", "b U8 [4] [4, 8)"}},
	{"S26", Structure, "one byte behind the last tensor", func() []byte { return header(`{"a":{`+four+`}}`, 5) }, nil},
	{"S27", Structure, "one byte short", func() []byte { return header(`{"a":{`+four+`}}`, 3) }, nil},
	{"S28a", Unsupported, "dtype F4",
		func() []byte { return header(`{"a":{"dtype":"F4","shape":[8],"data_offsets":[0,4]}}`, 4) }, nil},
	{"S28b", Unsupported, "an unknown dtype",
		func() []byte { return header(`{"a":{"dtype":"Q7","shape":[4],"data_offsets":[0,4]}}`, 4) }, nil},
	{"S29", Accept, "F32 at an odd offset", func() []byte {
		return header(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w.weight":{"dtype":"F32","shape":[16,32],"data_offsets":[1,2049]}}`, 2049)
	}, []string{"a U8 [1] [0, 1)", "w.weight F32 [16 32] [1, 2049)"}},
	{"S30a", Syntax, "a metadata value that is a number",
		func() []byte { return header(`{"__metadata__":{"format":1},"a":{`+four+`}}`, 4) }, nil},
	{"S30b", Limit, "2 MiB of metadata", func() []byte {
		return header(`{"__metadata__":{"k":"`+strings.Repeat("v", 2<<20)+`"},"a":{`+four+`}}`, 4)
	}, nil},
	{"S31", Limit, "65,537 tensors", func() []byte { return header("{"+repeated(65537, empty)+"}", 0) }, nil},
	{"S32", Syntax, "10,000 nested brackets",
		func() []byte { return shaped(strings.Repeat("[", 10000) + strings.Repeat("]", 10000)) }, nil},
	{"S33a", Structure, "a ZIP archive appended", func() []byte {
		return append(header(`{"a":{`+four+`}}`, 4), "PK\x05\x06"+strings.Repeat("\x00", 18)...)
	}, nil},
	{"S33b", Structure, "a pickle appended", func() []byte {
		return append(header(`{"a":{`+four+`}}`, 4), "\x80\x04cos\nsystem\n\x8c\x02id\x85R."...)
	}, nil},
	{"S34a", Structure, "a weight that is NaN", func() []byte { return weights(0x7fc0) }, nil},
	{"S34b", Structure, "a weight that is −∞", func() []byte { return weights(0xff80) }, nil},
}
