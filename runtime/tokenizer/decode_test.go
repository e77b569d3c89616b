package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// streamed collects the output of a stream, piece by piece.
func streamed(s *Stream, ids []int) (pieces []string) {
	for _, id := range ids {
		pieces = append(pieces, s.Next(id))
	}
	return append(pieces, s.Flush())
}

// TestStream: the pieces of a stream are whole characters and concatenate to the result of Decode, for every tokenizer
// of the pipelines and any ids.
func TestStream(t *testing.T) {
	f := readPipelines(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for i, p := range f.Pipelines {
		tok := fromJSON(t, f.tokenizerJSON(t, i))
		for n := range 200 {
			var ids []int
			if n < len(p.Cases) {
				ids = p.Cases[n].Special
			} else {
				for range rng.IntN(20) {
					ids = append(ids, rng.IntN(tok.Size()+2)-1)
				}
			}
			for _, show := range []bool{false, true} {
				s := tok.NewStream(false)
				s.ShowSpecial = show
				pieces := streamed(s, ids)
				for _, piece := range pieces {
					if !utf8.ValidString(piece) {
						t.Fatalf("%s: %v gives %q", p.Name, ids, pieces)
					}
				}
				if got, want := strings.Join(pieces, ""), tok.Decode(ids, show); got != want {
					t.Fatalf("%s: %v streams as %q, decodes as %q", p.Name, ids, got, want)
				}
			}
		}
	}
}

// TestStreamWaits: a character that spans tokens is returned with the last of them; one that is never completed becomes
// U+FFFD.
func TestStreamWaits(t *testing.T) {
	tok := fromJSON(t, readFile(t, shared.Testdata(t, "tiny-bitnet/tokenizer.json")))
	ids := func(bytes string) (out []int) {
		for i := range len(bytes) {
			id, ok := tok.vocab.find([]byte{bytes[i]})
			if !ok {
				t.Fatalf("no token for the byte %#x", bytes[i])
			}
			out = append(out, id)
		}
		return out
	}
	for bytes, want := range map[string][]string{
		"a🦊b":            {"a", "", "", "", "🦊", "b", ""},
		"é":              {"", "é", ""},
		"\xe2\x82":       {"", "", "\ufffd"},
		"\xe2\x82a":      {"", "", "\ufffda", ""},
		"\xe2\x28\xa1":   {"", "\ufffd(", "\ufffd", ""},
		"\xff\xfe":       {"\ufffd", "\ufffd", ""},
		"\xf0\x9f\xf0":   {"", "", "\ufffd", "\ufffd"},
		"\xf0\x9f\xa6":   {"", "", "", "\ufffd"},
		"\xc3\xc3\xa9":   {"", "\ufffd", "é", ""},
		"\xed\xa0\x80":   {"", "\ufffd\ufffd", "\ufffd", ""},
		"\x80":           {"\ufffd", ""},
		"\xe4\xb8\xade4": {"", "", "中", "e", "4", ""},
	} {
		got := streamed(tok.NewStream(false), ids(bytes))
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q\ngot  %q\nwant %q", bytes, got, want)
		}
		if raw := tok.Bytes(ids(bytes)); string(raw) != bytes {
			t.Errorf("%q has the bytes %q", bytes, raw)
		}
	}
}

// TestContinued: a stream that continues a text keeps the space before its first word; one that starts a text drops the
// space that the encoder added.
func TestContinued(t *testing.T) {
	tok := fromJSON(t, readFile(t, shared.Path(t, "data/tokenizers/llama2-spm/tokenizer.json")))
	ids := encode(t, tok, "Hello world", false)
	if got := strings.Join(streamed(tok.NewStream(false), ids), ""); got != "Hello world" {
		t.Errorf("%q", got)
	}
	if got := strings.Join(streamed(tok.NewStream(true), ids[1:]), ""); got != " world" {
		t.Errorf("%q", got)
	}
}

// TestSpecial: control tokens are omitted unless requested; ids without a token give no text.
func TestSpecial(t *testing.T) {
	tok := fromJSON(t, readFile(t, shared.Testdata(t, "tiny-bitnet/tokenizer.json")))
	ids := encode(t, tok, "a<|eot_id|>b", true)
	if got := tok.Decode(ids, false); got != "ab" {
		t.Errorf("%q", got)
	}
	if got := tok.Decode(append(ids, -1, 1<<30), true); got != "<|begin_of_text|>a<|eot_id|>b" {
		t.Errorf("%q", got)
	}
	if id, ok := tok.ID("<|eot_id|>"); !ok || id != 2554 || !tok.Special(id) {
		t.Errorf("%d %v", id, ok)
	}
	if id, ok := tok.ID("Ġthe"); !ok || tok.Decode([]int{id}, false) != " the" || tok.Special(id) {
		t.Errorf("%d %v", id, ok)
	}
	if tok.Size() != 2560 {
		t.Errorf("size %d", tok.Size())
	}
}

// TestByteLookalikes: tokens that merely resemble fallback tokens are ordinary tokens, as in tokenizers 0.23.3, which
// accepts a sign as part of the number.
func TestByteLookalikes(t *testing.T) {
	for token, want := range map[string]string{
		"<0xZZ>": "a<0xZZ>a", "<0x-1>": "a<0x-1>a", "<0xé>": "a<0xé>a", "<0X41>": "a<0X41>a", "<0x041>": "a<0x041>a",
		"<0x41>": "aAa", "<0xe9>": "a\ufffda", "<0x+9>": "a\ta", "<0x++>": "a<0x++>a", "<0x+>": "a<0x+>a",
	} {
		tok := fromJSON(t, small{
			vocab:   `{"a":0,"` + token + `":1}`,
			merges:  `[]`,
			model:   `,"byte_fallback":true`,
			decoder: `{"type":"ByteFallback"}`,
		}.json())
		if got := tok.Decode([]int{0, 1, 0}, true); got != want {
			t.Errorf("%s: %q, want %q", token, got, want)
		}
	}
}
