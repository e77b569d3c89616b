package openvino

import (
	"fmt"
	"math"
	"strconv"

	"github.com/lowpack/lowpack/convert/export/internal/folder"
)

// extension lists the operators of openvino_tokenizers.
var extension = map[string]bool{
	"SpecialTokensSplit":    true,
	"RegexSplit":            true,
	"RegexNormalization":    true,
	"CharsMapNormalization": true,
	"BPETokenizer":          true,
	"Truncate":              true,
	"CombineSegments":       true,
	"RaggedToDense":         true,
	"VocabDecoder":          true,
	"ByteFallback":          true,
	"FuzeRagged":            true,
	"UTF8Validate":          true,
}

// texts builds the graphs of a tokenizer and of its inverse. Lists of texts are three values: where each begins, where
// it ends, and the bytes of all; lists of such lists are preceded by two more.
type texts struct {
	*builder
	*vocabulary
}

// The types of a list of texts, of parts of texts with flags for parts that are tokens already, and of tokens.
var (
	listTypes  = []element{i32, i32, u8}
	markedList = []element{i32, i32, u8, boolean}
	partTypes  = []element{i32, i32, i32, i32, u8, boolean}
	tokenTypes = []element{i32, i32, i32}
)

// ops adds a layer with several outputs.
func (t *texts) ops(op, name string, out []element, in []value, data ...attribute) (values []value) {
	l := layer{name: name, op: op, data: data, in: in}
	for _, e := range out {
		l.out = append(l.out, output{element: e})
	}
	first := t.add(l)
	for i := range out {
		values = append(values, value{first.layer, first.port + i})
	}
	return values
}

// bytes is a text of the graph.
func (t *texts) bytes(name, s string) value {
	return t.constant(name, u8, []int64{int64(len(s))}, folder.Whole([]byte(s)))
}

// list are texts of the graph.
func (t *texts) list(name string, list [][]byte) []value {
	begins, ends, all := make([]int32, len(list)), make([]int32, len(list)), []byte{}
	for i, s := range list {
		begins[i], all = int32(len(all)), append(all, s...)
		ends[i] = int32(len(all))
	}
	return []value{t.words(name+"/begins", begins), t.words(name+"/ends", ends),
		t.constant(name+"/chars", u8, []int64{int64(len(all))}, folder.Whole(all))}
}

// word is a scalar of 32 bits.
func (t *texts) word(name string, x int32) value {
	return t.constant(name, i32, nil, folder.Whole([]byte{byte(x), byte(x >> 8), byte(x >> 16), byte(x >> 24)}))
}

// tokenizer builds the graph from texts to token ids.
func (v *vocabulary) tokenizer(positions int, info []field) *builder {
	t := &texts{newBuilder(), v}
	t.info = info
	input := t.add(layer{name: "string_input", op: "Parameter",
		data: []attribute{{"shape", "?"}, {"element_type", "string"}}, out: []output{{text, "string_input"}}})
	tokens := t.encoded(t.normalized(t.parts(input)))
	t.dense(t.truncated(tokens, positions))
	return t.builder
}

// parts cuts texts at the added tokens.
func (t *texts) parts(input value) []value {
	unpacked := t.ops("StringTensorUnpack", "unpacked", listTypes, []value{input})
	shape := t.op("ShapeOf", "shape", i64, []value{unpacked[0]}, attribute{"output_type", "i64"})
	n := t.gather("count", i64, shape, t.int(0), t.int(0))
	span := func(name string, from, to value) value {
		return t.op("Range", name, i32, []value{from, to, t.int(1)}, attribute{"output_type", "i32"})
	}
	begins, ends := span("rows/begins", t.int(0), n), span("rows/ends", t.int(1),
		t.op("Add", "count/next", i64, []value{n, t.int(1)}, numpy))
	return t.ops("SpecialTokensSplit", "special", partTypes,
		append([]value{begins, ends}, append(unpacked, t.bytes("special/pattern", t.specials()))...))
}

// normalized rewrites and cuts parts that are not tokens.
func (t *texts) normalized(parts []value) []value {
	rows, list := parts[:2:2], parts[2:]
	if t.form != "" {
		list = t.ops("CharsMapNormalization", "normalized", markedList, list,
			attribute{"normalization_form", t.form}, attribute{"remove_extra_whitespaces", "false"})
	}
	if !t.bytewise {
		list = t.replaced("prefixed", `(?:^)([\s\S])`, mark+"$1", list)
		list = t.replaced("marked", " ", mark, list)
		return append(rows, list...)
	}
	parts = append(rows, list...)
	for i, s := range t.splits {
		name := fmt.Sprintf("split%d", i)
		parts = t.ops("RegexSplit", name, partTypes, append(parts, t.bytes(name+"/pattern", s.pattern)),
			attribute{"behaviour", s.behavior}, attribute{"invert", strconv.FormatBool(s.invert)},
			attribute{"max_splits", "-1"})
	}
	return parts
}

// replaced replaces all matches of a pattern.
func (t *texts) replaced(name, pattern, by string, list []value) []value {
	types := listTypes
	if len(list) == len(markedList) {
		types = markedList
	}
	return t.ops("RegexNormalization", name, types,
		append(list[:len(list):len(list)], t.bytes(name+"/pattern", pattern), t.bytes(name+"/by", by)),
		attribute{"global_replace", "true"})
}

// encoded turns parts of texts into tokens.
func (t *texts) encoded(parts []value) []value {
	in := append(parts[:5:5], t.list("vocabulary", t.tokens)...)
	var left, right, added [][]byte
	for _, m := range t.Model.Merges {
		left, right = append(left, t.vocabulary.bytes(m[0])), append(right, t.vocabulary.bytes(m[1]))
	}
	var ids []int32
	for _, a := range t.Added {
		added, ids = append(added, []byte(a.Content)), append(ids, int32(a.ID))
	}
	in = append(append(in, t.list("merges/left", left)...), t.list("merges/right", right)...)
	in = append(append(in, t.list("added", added)...), t.words("added/ids", ids))
	unknown := ""
	if t.Model.Unk != nil {
		unknown = *t.Model.Unk
	}
	return t.ops("BPETokenizer", "tokens", tokenTypes, in, attribute{"unk_token", unknown},
		attribute{"fuse_unk", strconv.FormatBool(t.Model.FuseUnk)},
		attribute{"suffix_indicator", ""}, attribute{"end_suffix", ""}, attribute{"byte_fallback",
			strconv.FormatBool(t.Model.ByteFallback)},
		attribute{"cache_capacity", "20000"})
}

// unlimited is the length of texts that are not truncated.
const unlimited = math.MaxInt32 - 64

// truncated adds the state that turns truncation on, without which OpenVINO GenAI returns no tokens.
func (t *texts) truncated(tokens []value, positions int) []value {
	id := attribute{"variable_id", "truncation"}
	off := t.constant("truncation/off", boolean, nil, folder.Whole([]byte{0}))
	on := t.op("ReadValue", "truncation", boolean, []value{off}, id, attribute{"variable_type", "dynamic"},
		attribute{"variable_shape", "..."})
	most := t.op("Select", "truncation/length", i32, []value{
		on, t.word("truncation/context", int32(positions-len(t.before)-len(t.after))),
		t.word("truncation/none", unlimited),
	}, numpy)
	t.op("Assign", "truncation/assign", boolean, []value{on}, id)
	return t.ops("Truncate", "truncated", tokenTypes,
		append(tokens, most, t.bytes("truncation/side", "right"), t.bytes("truncation/order", "longest_first")),
		attribute{"m_num_inputs", "1"})
}

// dense adds the special tokens around texts, and pads rows to one length.
func (t *texts) dense(tokens []value) {
	var in []value
	around := func(name string, ids []int32) {
		for i, id := range ids {
			in = append(in, t.word(fmt.Sprintf("%s%d/begin", name, i), 0), t.word(fmt.Sprintf("%s%d/end", name, i), 1),
				t.words(fmt.Sprintf("%s%d", name, i), []int32{id}))
		}
	}
	around("before", t.before)
	in = append(in, tokens...)
	around("after", t.after)
	in = append(in, t.words("segments", make([]int32, len(in)/3)))
	all := t.ops("CombineSegments", "combined", append(tokenTypes[:3:3], tokenTypes...), in)
	lengths := t.op("Subtract", "lengths", i32, []value{all[1], all[0]}, numpy)
	longest := t.op("ReduceMax", "longest", i32, []value{lengths, t.word("axis", 0)}, attribute{"keep_dims", "false"})
	rows := t.ops("RaggedToDense", "dense", []element{i32, boolean}, append(all[:3:3], longest, t.word("padding", 0)),
		attribute{"pad_right", "false"}, attribute{"m_pad_max_length", "false"})
	t.result("input_ids", t.convert("input_ids", rows[0], i64))
	t.result("attention_mask", t.convert("attention_mask", rows[1], i64))
}

// detokenizer builds the graph from token ids to texts.
func (v *vocabulary) detokenizer(info []field) *builder {
	t := &texts{newBuilder(), v}
	t.info = info
	ids := t.convert("words", t.parameter("Parameter_1", i64, "?,?"), i32)
	var special []int32
	for _, a := range t.Added {
		if a.Special {
			special = append(special, int32(a.ID))
		}
	}
	in := append([]value{ids}, t.list("vocabulary", t.tokens)...)
	tokens := t.ops("VocabDecoder", "texts", partTypes[:5], append(in, t.words("special", special)),
		attribute{"skip_tokens", ""})
	rows, list := tokens[:2:2], tokens[2:]
	if !t.bytewise {
		list = t.ops("ByteFallback", "bytes", listTypes, t.replaced("spaces", mark, " ", list))
	}
	fused := t.ops("FuzeRagged", "fused", []element{i32, i32}, append(rows, list[0], list[1]))
	list = append(fused, list[2])
	if !t.bytewise {
		list = t.replaced("stripped", "^ ", "", list)
	}
	valid := t.ops("UTF8Validate", "valid", listTypes, list, attribute{"replace_mode", "true"})
	t.result("string_output", t.op("StringTensorPack", "string_output", text, valid))
	return t.builder
}
