package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// small is a tokenizer.json with placeholders for the parts that a test breaks.
type small struct {
	vocab, merges, added, pre, post, decoder, norm, model, top string
}

func (s small) json() []byte {
	or := func(a, b string) string {
		if a == "" {
			return b
		}
		return a
	}
	return fmt.Appendf(nil,
		`{"version":"1.0","added_tokens":%s,"normalizer":%s,"pre_tokenizer":%s,"post_processor":%s,"decoder":%s,`+
			`"model":{"type":"BPE","vocab":%s,"merges":%s%s}%s}`, or(s.added, "[]"), or(s.norm, "null"),
		or(s.pre, "null"),
		or(s.post, "null"),
		or(s.decoder, "null"), or(s.vocab, `{"a":0,"b":1,"ab":2}`), or(s.merges, `["a b"]`), s.model, s.top)
}

// TestBrokenFiles: each file breaks one rule; the class of the error and a word of its text are fixed. T01 … T09 are
// names in the plan of hostile inputs.
func TestBrokenFiles(t *testing.T) {
	level := `{"type":"ByteLevel","add_prefix_space":false}`
	long := strings.Repeat("x", maxTokenBytes+1)
	for _, c := range []struct {
		file  small
		class error
		word  string
	}{
		{small{vocab: `{"a":0,"b":1,"ab":2147483647}`}, pack.ErrCorrupt, "2147483647"}, // T01
		{small{vocab: `{"a":0,"b":1,"ab":4000000}`}, pack.ErrCorrupt, "3999999"[:1]},   // T01
		{small{vocab: `{"a":0,"b":-1,"ab":2}`}, pack.ErrCorrupt, "-1"},                 // T02
		{small{vocab: `{"a":0,"b":0,"ab":2}`}, pack.ErrCorrupt, "belongs to"},          // T02
		{small{vocab: `{"a":0,"b":1,"ab":2,"a":3}`}, pack.ErrCorrupt, "has the ids"},   // T02
		{small{vocab: `{"a":0,"b":1.5,"ab":2}`}, pack.ErrCorrupt, "integer"},           // T02
		{small{merges: `["a b","ab ab"]`}, pack.ErrCorrupt, "merge 1"},                 // T03
		{small{merges: `["a c"]`}, pack.ErrCorrupt, "merge 0"},                         // T04
		{small{merges: `["ab"]`}, pack.ErrCorrupt, "one space"},                        // T04
		{small{merges: `["a b c"]`}, pack.ErrCorrupt, "one space"},                     // T04
		{small{merges: `[["a","b","ab"]]`}, pack.ErrCorrupt, "3 parts"},                // T04
		{small{merges: `[["a"]]`}, pack.ErrCorrupt, "1 parts"},                         // T04
		{small{merges: `[7]`}, pack.ErrCorrupt, "string"},                              // T04
		{small{pre: level, decoder: level, vocab: `{"a":0,"b":1,"ab":2,"ab":3}`}, pack.ErrCorrupt, "has the ids"},
		{small{pre: level, decoder: level, merges: `["a 世"]`}, pack.ErrCorrupt, "byte alphabet"},
		{small{pre: level}, pack.ErrUnsupported, "without a decoder"},
		{small{pre: level, decoder: `{"type":"Fuse"}`}, pack.ErrUnsupported, "ByteLevel"},
		{small{decoder: level}, pack.ErrUnsupported, "ByteLevel"},
		{small{pre: `{"type":"Split","pattern":{"Regex":"(?<=a)b"},"behavior":"Isolated"}`}, pack.ErrUnsupported,
			"this kind of group"}, // T06
		{small{pre: `{"type":"Split","pattern":{},"behavior":"Isolated"}`}, pack.ErrCorrupt, "pattern"},
		{small{pre: `{"type":"Split","pattern":{"String":"a"},"behavior":"Sideways"}`}, pack.ErrUnsupported,
			"Sideways"},
		{small{norm: `{"type":"Sequence","normalizers":[` + strings.Repeat(`{"type":"NFC"},`, 1_000_000) +
			`{"type":"NFC"}]}`}, pack.ErrLimit, "more than 16384 values"}, // T07
		{small{norm: `{"type":"Sequence","normalizers":[` + strings.Repeat(`{"type":"NFC"},`, 64) + `{"type":"NFC"}]}`},
			pack.ErrLimit, "elements"},
		// T07
		{small{norm: strings.Repeat(`{"type":"Sequence","normalizers":[`, 1000)}, pack.ErrLimit, "nested"},
		// T07
		{small{norm: strings.Repeat(`{"type":"Sequence","normalizers":[{"type":"NFC"},`, 20) +
			`{"type":"Sequence","normalizers":[` + strings.Repeat(`{"type":"NFC"},`, 63) + `{"type":"NFC"}]}` +
			strings.Repeat(`]}`, 20)}, pack.ErrLimit, "parts"},
		{small{added: `[{"id":3,"content":""}]`}, pack.ErrCorrupt, "empty"},                     // T08
		{small{added: `[{"id":-3,"content":"x"}]`}, pack.ErrCorrupt, "id"},                      // T02
		{small{added: `[{"id":1,"content":"x"}]`}, pack.ErrCorrupt, "belongs to"},               // T02
		{small{added: `[{"id":7,"content":"ab"}]`}, pack.ErrCorrupt, "in the vocabulary 2"},     // T02
		{small{added: `[{"id":3,"content":"x"},{"id":4,"content":"x"}]`}, pack.ErrCorrupt, "x"}, // T02
		{small{added: `[{"id":3,"content":"x","colour":true}]`}, pack.ErrUnsupported, "colour"},
		{small{added: `{}`}, pack.ErrCorrupt, "array"},
		{small{added: `[{"id":4000000,"content":"x"}]`}, pack.ErrCorrupt, "largest id"}, // T01
		{small{vocab: `{"` + long + `":0}`, merges: `[]`}, pack.ErrLimit, "bytes"},
		{small{vocab: `{"":0}`, merges: `[]`}, pack.ErrCorrupt, "empty"},
		{small{vocab: `{}`, merges: `[]`}, pack.ErrCorrupt, "empty"},
		{small{model: `,"dropout":0.1`}, pack.ErrUnsupported, "dropout"},
		{small{model: `,"end_of_word_suffix":"</w>"`}, pack.ErrUnsupported, "end_of_word_suffix"},
		{small{model: `,"unk_token":"?"`}, pack.ErrCorrupt, "unk_token"},
		{small{model: `,"unk_token":"?","byte_fallback":true`}, pack.ErrCorrupt, "unk_token"},
		{small{model: `,"colour":1`}, pack.ErrUnsupported, "colour"},
		{small{top: `,"colour":1`}, pack.ErrUnsupported, "colour"},
		{small{top: `,"decoder":null`}, pack.ErrCorrupt, "twice"},
		{small{top: `}`}, pack.ErrCorrupt, "after the end"},
		{small{norm: `{"type":"Precompiled"}`}, pack.ErrUnsupported, "Precompiled"},
		{small{norm: `{"type":"BertNormalizer"}`}, pack.ErrUnsupported, "BertNormalizer"},
		{small{norm: `{"type":"NFC","colour":1}`}, pack.ErrUnsupported, "colour"},
		{small{pre: `{"type":"UnicodeScripts"}`}, pack.ErrUnsupported, "UnicodeScripts"},
		{small{pre: `{"type":"Sequence","pretokenizers":[` + level + `,` + level + `]}`}, pack.ErrUnsupported, "twice"},
		{small{decoder: `{"type":"WordPiece"}`}, pack.ErrUnsupported, "WordPiece"},
		{small{decoder: `{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"ByteFallback"}]}`},
			pack.ErrUnsupported,
			"behind Fuse"},
		{small{decoder: `{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":" ","start":0,"stop":1}]}`},
			pack.ErrUnsupported, "end of a whole text"},
		{small{post: `{"type":"RobertaProcessing"}`}, pack.ErrUnsupported, "RobertaProcessing"},
		{small{post: `{"type":"TemplateProcessing","single":[],"special_tokens":{}}`}, pack.ErrCorrupt, "0 times"},
		{small{post: `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"a"}},{"Sequence":{"id":"A"}}],"special_tokens":{"a":{"ids":[99]}}}`}, pack.ErrCorrupt, "not in the vocabulary"},
		{small{post: `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"q"}},{"Sequence":{"id":"A"}}],"special_tokens":{}}`}, pack.ErrCorrupt, "single[0]"},
	} {
		_, err := Load(files(tokenizerJSON, c.file.json()))
		if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.word) ||
			!strings.HasPrefix(err.Error(), "tokenizer.json: ") {
			t.Errorf("%.200s\ngot %v, want %v with %q", c.file.json(), err, c.class, c.word)
		}
	}
	for text, word := range map[string]string{
		"": "the file is empty", "[]": "object", "{}": "model is missing",
		`{"model":{"type":"WordLevel","vocab":{"a":0}}}`: "WordLevel", `{"version":"2.0"}`: "version",
		`{"model":{"type":"BPE","vocab":{"a":0}}}`:                                                 "merges",
		`{"model":{"type":"Unigram","vocab":[["a",1]]}}`:                                           "unk_id",
		`{"model":{"type":"Unigram","unk_id":1,"vocab":[["a",1]]}}`:                                "unk_id",
		`{"model":{"type":"Unigram","unk_id":0,"vocab":[["a"]]}}`:                                  "score",
		`{"model":{"type":"Unigram","unk_id":0,"vocab":[["a",1,2]]}}`:                              "more than",
		`{"model":{"vocab":{"a":0}}}`:                                                              "model of type",
		`{"model":{"type":"Unigram","unk_id":0,"vocab":[["` + strings.Repeat("x", 300) + `",1]]}}`: "more than 128",
	} {
		if _, err := Load(files(tokenizerJSON, []byte(text))); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%.100s: %v does not say %q", text, err, word)
		}
	}
}

// files gives pairs of names and contents.
func files(pairs ...any) Files {
	m := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		switch data := pairs[i+1].(type) {
		case string:
			m[pairs[i].(string)] = []byte(data)
		case []byte:
			m[pairs[i].(string)] = data
		}
	}
	return func(name string) ([]byte, bool) { data, ok := m[name]; return data, ok }
}

// sameTokens checks that two tokenizers encode and decode texts alike.
func sameTokens(t *testing.T, got, want *Tokenizer, texts []string) {
	t.Helper()
	for _, s := range texts {
		a, b := encode(t, got, s, true), encode(t, want, s, true)
		if !slices.Equal(a, b) {
			t.Fatalf("%.100q\ngot  %.300s\nwant %.300s", s, fmt.Sprint(a), fmt.Sprint(b))
		}
		if x, y := got.Decode(a, true), want.Decode(a, true); x != y {
			t.Fatalf("%v decodes to %q, want %q", a, x, y)
		}
	}
}

// proofTexts are texts that all sources of one vocabulary must encode alike.
func proofTexts(t *testing.T, golden string) []string {
	t.Helper()
	var cases []struct{ S string }
	unmarshal(t, shared.Path(t, golden), &cases)
	texts := []string{string(readFile(t, shared.Path(t, "data/text/wiki.test.raw")))[:200_000],
		"x<s>y</s> <|eot_id|> z"}
	for _, c := range cases {
		texts = append(texts, c.S)
	}
	return texts
}

type jsonVocab struct {
	Model struct {
		Vocab  map[string]int
		Merges []string
	}
}

func (v *jsonVocab) byID() []string {
	out := make([]string, len(v.Model.Vocab))
	for token, id := range v.Model.Vocab {
		out[id] = token
	}
	return out
}

// TestSentencePiece: tokenizer.model of Llama 2, rebuilt from its vocabulary (in which the score of piece n is 259 − n,
// and −10⁹ for runs of marks), encodes the same as its tokenizer.json.
func TestSentencePiece(t *testing.T) {
	source := readFile(t, shared.Path(t, "data/tokenizers/llama2-spm/tokenizer.json"))
	var v jsonVocab
	if err := json.Unmarshal(source, &v); err != nil {
		t.Fatal(err)
	}
	var model []byte
	for id, token := range v.byID() {
		kind, score := uint64(pieceNormal), float32(259-id)
		switch {
		case id == 0:
			kind, score = pieceUnknown, 0
		case id < 3:
			kind, score = pieceControl, 0
		case id < 259:
			kind, score = pieceByte, 0
		case strings.Trim(token, mark) == "":
			score = -1e9
		}
		p := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), token)
		p = protowire.AppendFixed32(protowire.AppendTag(p, 2, protowire.Fixed32Type), math.Float32bits(score))
		p = protowire.AppendVarint(protowire.AppendTag(p, 3, protowire.VarintType), kind)
		model = protowire.AppendBytes(protowire.AppendTag(model, 1, protowire.BytesType), p)
	}
	varint := func(b []byte, field protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
	}
	trainer := varint(varint(nil, 3, 2), 35, 1)
	model = protowire.AppendBytes(protowire.AppendTag(model, 2, protowire.BytesType), trainer)
	normalizer := varint(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "identity"), 4, 0)
	withNormalizer := func(n []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(slices.Clone(model), 3, protowire.BytesType), n)
	}
	got, err := Load(files(sentencePiece, withNormalizer(normalizer), configJSON,
		`{"bos_token":"<s>","eos_token":{"content":"</s>"},"add_bos_token":true}`))
	if err != nil {
		t.Fatal(err)
	}
	want, err := Load(files(tokenizerJSON, source))
	if err != nil {
		t.Fatal(err)
	}
	sameTokens(t, got, want, proofTexts(t, "data/tokenizers/llama2-spm/golden.json"))
	if stop := got.StopIDs(); !slices.Equal(stop, []int{2}) {
		t.Errorf("stops %v", stop)
	}
	for name, n := range map[string][]byte{
		"identity": protowire.AppendBytes(protowire.AppendTag(normalizer, 2, protowire.BytesType),
			[]byte{1}),
		"remove_extra_whitespaces": varint(nil, 4, 1),
		"spaces":                   varint(varint(nil, 4, 0), 5, 0),
	} {
		if _, err := Load(files(sentencePiece, withNormalizer(n))); !errors.Is(err, pack.ErrUnsupported) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	missing := bytes.Replace(withNormalizer(normalizer), []byte("<0x09>"), []byte("<0x9.>"), 1)
	if _, err := Load(files(sentencePiece, missing)); !errors.Is(err, pack.ErrCorrupt) ||
		!strings.Contains(err.Error(), "<0x09>") {
		t.Errorf("a byte is missing: %v", err)
	}
	for n := range 200 { // truncations
		if _, err := Load(files(sentencePiece, model[:n*7])); err == nil {
			t.Errorf("a model of %d bytes is accepted", n*7)
		}
	}
}

// TestTiktoken: a tiktoken file with the ranks of Llama 3 encodes the same as its tokenizer.json.
func TestTiktoken(t *testing.T) {
	source := readFile(t, shared.Path(t, "data/tokenizers/llama3/tokenizer.json"))
	var v jsonVocab
	if err := json.Unmarshal(source, &v); err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	for id, token := range v.byID() {
		raw, ok := toBytes(nil, []byte(token))
		if !ok {
			t.Fatalf("%q", token)
		}
		fmt.Fprintf(&lines, "%s %d\r\n", base64.StdEncoding.EncodeToString(raw), id)
	}
	got, err := Load(files(sentencePiece, lines.Bytes(), configJSON, `{"add_bos_token":false}`))
	if err != nil {
		t.Fatal(err)
	}
	want, err := Load(files(tokenizerJSON, source))
	if err != nil {
		t.Fatal(err)
	}
	sameTokens(t, got, want, proofTexts(t, "data/tokenizers/llama3/golden.json"))
	if got.Size() != 128256 {
		t.Errorf("size %d", got.Size())
	}
	for name, text := range map[string]string{"known are": "YQ== 0\nYg== 1\n", "line 2": "YQ== 0\nYg== x\n",
		"largest rank": "YQ== 0\nYg== 2\n", "belongs to": "YQ== 0\nYg== 0\n"} {
		if _, err := Load(files(sentencePiece, text)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v does not say %q", text, err, name)
		}
	}
}

// TestVocabAndMerges: the two files of GPT-2, with the line ends of any system.
func TestVocabAndMerges(t *testing.T) {
	f := readPipelines(t)
	for i, p := range f.Pipelines {
		if p.Name != "gpt2" && p.Name != "qwen2 NFC" {
			continue
		}
		want := fromJSON(t, f.tokenizerJSON(t, i))
		var merges []string
		if err := json.Unmarshal(f.Models[p.Model]["merges"], &merges); err != nil {
			t.Fatal(err)
		}
		class := map[string]string{"gpt2": "GPT2Tokenizer", "qwen2 NFC": "Qwen2Tokenizer"}[p.Name]
		config := fmt.Sprintf(`{"tokenizer_class":%q,"added_tokens_decoder":{"%d":{"content":"<|eot|>","special":true}}}`,
			class, want.Size()-1)
		for _, end := range []string{"\n", "\r\n", "\r"} {
			text := "#version: 0.2" + end + strings.Join(merges, end) + end
			got, err := Load(files(vocabJSON, []byte(f.Models[p.Model]["vocab"]), mergesText, text, configJSON, config))
			if err != nil {
				t.Fatalf("%q: %v", end, err)
			}
			for _, c := range p.Cases {
				if ids := encode(t, got, c.Text, false); !slices.Equal(ids, c.IDs) {
					t.Errorf("%q %q\ngot  %v\nwant %v", end, c.Text, ids, c.IDs)
				}
			}
		}
		if _, err := Load(files(vocabJSON, []byte(f.Models[p.Model]["vocab"]), mergesText, "a b\n", configJSON,
			`{"tokenizer_class":"XLMTokenizer"}`)); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("unknown class: %v", err)
		}
		if _, err := Load(files(vocabJSON, []byte(f.Models[p.Model]["vocab"]), mergesText,
			"#version\n"+merges[0]+"\nq\n")); !errors.Is(err, pack.ErrCorrupt) ||
			!strings.Contains(err.Error(), "merge 1") {
			t.Errorf("broken merges: %v", err)
		}
	}
	if _, err := Load(files()); !errors.Is(err, pack.ErrUnsupported) ||
		!strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("no files: %v", err)
	}
}

// FuzzModelFile: no tokenizer.model makes the package panic.
func FuzzModelFile(f *testing.F) {
	f.Add([]byte("YQ== 0\nYg== 1\n"))
	var model []byte
	for _, text := range []string{"<unk>", "▁", "a", "b", "ab", "▁a"} {
		p := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), text)
		model = protowire.AppendBytes(protowire.AppendTag(model, 1, protowire.BytesType), p)
	}
	identity := protowire.AppendVarint(protowire.AppendTag(nil, 4, protowire.VarintType), 0)
	f.Add(protowire.AppendBytes(protowire.AppendTag(model, 3, protowire.BytesType), identity))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := Load(files(sentencePiece, data))
		if err != nil {
			if !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrUnsupported) &&
				!errors.Is(err, pack.ErrLimit) {
				t.Errorf("an error of no class: %v", err)
			}
			return
		}
		if _, err := tok.Encode("a b ab", true); err != nil {
			t.Error(err)
		}
	})
}

// TestPartsAreSmall: a part of tokenizer.json with too many values is rejected before its tree takes memory.
func TestPartsAreSmall(t *testing.T) {
	list := strings.Repeat(`{"type":"NFC"},`, maxPartValues/2)
	for _, field := range []string{"normalizer", "pre_tokenizer", "post_processor", "decoder"} {
		_, err := readJSON([]byte(`{"` + field + `":[` + list + `{}]}`))
		if !errors.Is(err, pack.ErrLimit) || !strings.Contains(err.Error(), "more than 16384 values") {
			t.Errorf("%s: %v", field, err)
		}
	}
}
