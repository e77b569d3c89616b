package jsonread

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lowpack/lowpack/pack"
)

// plain converts a value to encoding/json's representation.
func plain(v *Value) any {
	switch v.Kind {
	case Bool:
		return v.Bool
	case Number:
		return json.Number(v.Text)
	case String:
		return v.Text
	case Array:
		out := []any{}
		for i := range v.Items {
			out = append(out, plain(&v.Items[i]))
		}
		return out
	case Object:
		out := map[string]any{}
		for i := range v.Members {
			out[v.Members[i].Key] = plain(&v.Members[i].Value)
		}
		return out
	}
	return nil
}

// againstStdlib compares the reader with encoding/json: whatever it accepts, encoding/json accepts with the same value;
// whatever it rejects, encoding/json rejects too, or the reader is known to be stricter.
func againstStdlib(t *testing.T, text []byte) {
	t.Helper()
	got, err := Parse(text, 1<<20)
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	var want any
	wantErr := decoder.Decode(&want)
	if wantErr == nil && !json.Valid(text) {
		wantErr = errors.New("more than one value")
	}
	if err != nil {
		if !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrLimit) {
			t.Errorf("%q: an error of no class: %v", text, err)
		}
		stricter := strings.Contains(err.Error(), "twice") || strings.Contains(err.Error(), "surrogate") ||
			strings.Contains(err.Error(), "nested") ||
			strings.Contains(err.Error(), "too large") || !utf8.Valid(text)
		if wantErr == nil && !stricter {
			t.Errorf("%q: refused with %v", text, err)
		}
		return
	}
	if wantErr != nil {
		t.Fatalf("%q: accepted, but encoding/json says %v", text, wantErr)
	}
	if g := plain(got); !reflect.DeepEqual(g, want) {
		t.Errorf("%q\ngot  %#v\nwant %#v", text, g, want)
	}
	if err := NewReader(text).Skip(); err != nil {
		t.Errorf("%q: Skip: %v", text, err)
	}
}

var samples = []string{
	`null`, `true`, `false`, `0`, `-0`, `1`, `-12.5e+3`, `1E9`, `123456789012`, `""`,
	`"a\"\\\/\b\f\n\r\té\u00e9\ud83d\ude00"`, `[]`, `[1, [2, []], {}]`,
	`{}`, `{"a": 1, "b": {"a": [null]}, "": ""}`, " \t\r\n[ 1 , 2 ] ", `{"\u0061": 1}`, `"\u0000"`, `[1e308]`,
	``, ` `, `nul`, `truefalse`, `01`, `-`, `1.`, `.5`, `1e`, `+1`, `1e999`, `NaN`, `Infinity`, `-Infinity`,
	`"a`, `"\x"`,
	`"\u12"`, `"\ud800"`, `"\ud800\u0041"`,
	`"\udc00"`, "\"\x01\"", "\"\xff\"", `[1,]`, `[1 2]`, `[`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `{"a":1,"a":2}`,
	`{"a":1,"\u0061":2}`, `1 2`, `{"a":[{"b":1,"b":1}]}`,
	`nulls`, `"\u12g4"`, `"\ud800\n"`, `"\udc00\ud800"`, `}`, `{} {}`,
	"\ufeff1", `'a'`, `[1]x`, strings.Repeat("[", 100),
}

func TestAgainstStdlib(t *testing.T) {
	for _, s := range samples {
		againstStdlib(t, []byte(s))
	}
	for _, s := range samples[:19] {
		if _, err := Parse([]byte(s), 1<<20); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range samples[19:] {
		if _, err := Parse([]byte(s), 1<<20); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}

func TestPositions(t *testing.T) {
	for text, where := range map[string]string{
		"{\n \"a\": NaN}":           "line 2, column 7",
		"{\"a\":1,\n\"a\":2}":       "line 2, column 5",
		"[1,\n2,\n -Infinity]":      "line 3, column 2",
		"[\"\\ud800\"]":             "line 1, column 3",
		"[1] x":                     "line 1, column 5",
		"{\n\"b\" 1}":               "line 2, column 5",
		"[\"ab":                     "line 1, column 5",
		"[123456789012345678901e9]": "",
	} {
		_, err := Parse([]byte(text), 1<<20)
		if where == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), where) {
			t.Errorf("%q: %v, want %s", text, err, where)
		}
	}
}

func TestInt(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "7": 7, "123456789": 123456789, "1234567890": 1234567890, "-5": -5,
		"9223372036854775807": 1<<63 - 1} {
		if n, err := NewReader([]byte(text + " ")).Int(); err != nil || n != want {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"1.0", "1e2", "9223372036854775808", "01", "007", "-", `"1"`, "null", "",
		"1234567891.5"} {
		if n, err := NewReader([]byte(text)).Int(); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
}

func TestUint(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, " 7,": 7, "9223372036854775807]": 1<<63 - 1} {
		if n, err := NewReader([]byte(text)).Uint(); err != nil || n != want {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"", "-1", "-0", "+1", "00", "1.0", "0e0", "9223372036854775808", "x", `"1"`, "null"} {
		if n, err := NewReader([]byte(text)).Uint(); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
}

func TestStringUpTo(t *testing.T) {
	for text, want := range map[string]error{`"abc"`: nil, `"\u0061bc"`: nil, `"abcd"`: pack.ErrLimit,
		`"\u0061bcd"`: pack.ErrLimit, `3`: pack.ErrCorrupt} {
		if s, err := NewReader([]byte(text)).StringUpTo(3); !errors.Is(err, want) || err == nil && s != "abc" {
			t.Errorf("%s: %q, %v", text, s, err)
		}
	}
}

func TestLimit(t *testing.T) {
	if _, err := Parse([]byte("[1, 2]"), 5); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("%v", err)
	}
	if _, err := Parse([]byte(strings.Repeat("[", MaxDepth+1)), 1<<20); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("%v", err)
	}
	zeros, keys := strings.Repeat("0,", MaxValues-2), new(strings.Builder)
	for i := range MaxValues {
		fmt.Fprintf(keys, "\"%d\":0,", i)
	}
	for text, want := range map[string]error{
		"[" + zeros + "0]":                  nil,
		"[" + zeros + "0,0]":                pack.ErrLimit,
		"[[[" + zeros + "0]]]":              pack.ErrLimit,
		"{" + keys.String() + "\"last\":0}": pack.ErrLimit,
	} {
		if _, err := Parse([]byte(text), 1<<30); !errors.Is(err, want) {
			t.Errorf("%.10s…: %v, want %v", text, err, want)
		}
	}
	r := NewReader([]byte("{" + keys.String() + "\"last\":0}"))
	if err := r.Skip(); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("skipped keys: %v", err)
	}
	for limit, want := range map[int]error{2: pack.ErrLimit, 3: nil} {
		if _, err := NewReader([]byte("[0, 0]")).ValueUpTo(limit); !errors.Is(err, want) {
			t.Errorf("at most %d values: %v, want %v", limit, err, want)
		}
	}
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	if _, err := Parse([]byte(deep), 1<<20); err != nil {
		t.Errorf("%v", err)
	}
}

func TestGet(t *testing.T) {
	v, err := Parse([]byte(`{"a": {"b": [1, "x", 2.5]}, "n": null}`), 100)
	if err != nil {
		t.Fatal(err)
	}
	items := v.Get("a").Get("b").Items
	if n, ok := items[0].Int(); n != 1 || !ok {
		t.Error(n, ok)
	}
	if s, ok := items[1].Str(); s != "x" || !ok {
		t.Error(s, ok)
	}
	if f, ok := items[2].Float(); f != 2.5 || !ok {
		t.Error(f, ok)
	}
	if _, ok := items[2].Int(); ok {
		t.Error("2.5 is an integer")
	}
	if v.Get("n") != nil || v.Get("q").Get("r") != nil {
		t.Error("null or nothing is a value")
	}
}

func FuzzAgainstStdlib(f *testing.F) {
	for _, s := range samples {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) { againstStdlib(t, text) })
}

func BenchmarkMembers(b *testing.B) {
	var text strings.Builder
	text.WriteString("{")
	for i := range 100_000 {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, `"token%d": %d`, i, i)
	}
	text.WriteString("}")
	data := []byte(text.String())
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		r := NewReader(data)
		if err := r.Members(func([]byte) error { _, err := r.Int(); return err }); err != nil {
			b.Fatal(err)
		}
	}
}

// TestFields: the raw fields of an object, or the fault and its position.
func TestFields(t *testing.T) {
	fields, err := Fields([]byte(` { "a" : [1, {"b": null}] ,"\u0062":"x\u0000"}` + "\n"))
	if err != nil || len(fields) != 2 || string(fields["a"]) != `[1, {"b": null}]` ||
		string(fields["b"]) != `"x\u0000"` {
		t.Errorf("%q, %v", fields, err)
	}
	deep := strings.Repeat(`{"long_name":`, 100)
	for text, want := range map[string]Fault{
		`{"a": [0, {"b": "\ud800"}]}`:      {Path: "a[1].b", Offset: 17},
		`{"a": [0, {"b": 1e400}]}`:         {Path: "a[1].b", Offset: 16},
		`{"a": {"b": 1, "\u0062": 2}}`:     {Path: "a", Offset: 24},
		`{"a b": {"\"": {"": [[], [}]]}}}`: {Path: `["a b"]["\""][""][1][0]`},
		`{"a": 1, "a": 2}`:                 {Offset: 13},
		`{"\udc00": 1}`:                    {Offset: 2},
		`{"a": 1} {"a": 1}`:                {Offset: 9},
		`[1]`:                              {},
		``:                                 {},
		deep: {Path: strings.Repeat("long_name.", 20) + "…",
			Offset: 64 * len(`{"long_name":`)},
		`{"a": 1, "b": "` + "\xff" + `"}`:        {Path: "b", Offset: 15},
		`{"` + strings.Repeat("é", 99) + `": x}`: {Path: `["` + strings.Repeat(`\u00e9`, 20) + `"]`},
	} {
		_, err := Fields([]byte(text))
		var got *Fault
		if !errors.As(err, &got) || got.Path != want.Path || want.Offset > 0 && got.Offset != want.Offset {
			t.Errorf("%.60q: %+v, want %+v", text, got, want)
		} else if !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrLimit) {
			t.Errorf("%.60q: an error of no class: %v", text, err)
		}
	}
}

// TestSkipAllocs: skipping does not allocate per value.
func TestSkipAllocs(t *testing.T) {
	text := []byte(`{"a": [` + strings.Repeat(`1, "b", 2.5, null, true, `, 1000) + `[]]}`)
	if n := testing.AllocsPerRun(10, func() { NewReader(text).Skip() }); n > 20 {
		t.Errorf("%v allocations", n)
	}
}
