package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/chat"
)

// parquetOf writes rows as a Parquet file.
func parquetOf[T any](t *testing.T, rows ...T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.parquet")
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	return path
}

// spoken is a message in Parquet.
type spoken struct {
	Role    string  `parquet:"role"`
	Content *string `parquet:"content,optional"`
}

// TestDocumentsOfTable: a row of a Parquet file is a text or a chat, as a line of JSON is, also in a folder.
func TestDocumentsOfTable(t *testing.T) {
	type text struct {
		Text string `parquet:"text"`
		ID   int    `parquet:"id"`
	}
	type talk struct {
		Messages []spoken `parquet:"messages,list"`
	}
	one, two := "one", "two"
	path := parquetOf(t, text{"a\nb", 1}, text{"", 2})
	want := []convert.Document{{Text: "a\nb", Origin: path + ", row 1"}, {Origin: path + ", row 2"}}
	for _, from := range []string{path, filepath.Dir(path)} {
		if got, err := reading(from); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", from, got, err, want)
		}
	}
	path = parquetOf(t, talk{[]spoken{{"user", &one}, {"assistant", &two}}}, talk{[]spoken{{"user", &two}}})
	want = []convert.Document{
		{Messages: []chat.Message{{Role: "user", Content: "one"}, {Role: "assistant", Content: "two"}},
			Origin: path + ", row 1"},
		{Messages: []chat.Message{{Role: "user", Content: "two"}}, Origin: path + ", row 2"},
	}
	if got, err := reading(path); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// TestDocumentsOfTableRefused: what would not be refused of a line of JSON alone is not read of a table either; errors
// name file and rule.
func TestDocumentsOfTableRefused(t *testing.T) {
	type text[T any] struct {
		Text T `parquet:"text"`
	}
	type optional struct {
		Text *string `parquet:"text,optional"`
	}
	type bytesOnly struct {
		Text []byte `parquet:"text"`
	}
	type messages[T any] struct {
		Messages []T `parquet:"messages,list"`
	}
	type both struct {
		text[string]
		messages[spoken]
	}
	type named struct {
		spoken
		Name string `parquet:"name"`
	}
	type silent struct {
		Role string `parquet:"role"`
	}
	broken := filepath.Join(t.TempDir(), "t.parquet")
	if err := os.WriteFile(broken, []byte("PAR1 and no more"), 0o600); err != nil {
		t.Fatal(err)
	}
	some := "a"
	for path, says := range map[string]string{
		broken:                                         "ends with PAR1",
		parquetOf[text[string]](t):                     "no rows",
		parquetOf(t, silent{"a"}):                      `neither a column "text" nor "messages"`,
		parquetOf(t, both{}):                           `columns "text" and "messages"`,
		parquetOf(t, text[int64]{1}):                   `column "text" is not of strings`,
		parquetOf(t, text[[]string]{[]string{"a"}}):    `column "text" is not of strings`,
		parquetOf(t, bytesOnly{[]byte("a")}):           `column "text" is not of strings`,
		parquetOf(t, text[spoken]{spoken{"a", &some}}): `column "text" is not of strings`,
		parquetOf(t, text[string]{"\xff"}):             "row 1: text is not UTF-8",
		parquetOf(t, optional{&some}, optional{}):      "row 2: text is null",
		parquetOf(t, messages[named]{[]named{{}}}):     "column messages.list.element.name",
		parquetOf(t, messages[silent]{[]silent{{}}}):   "messages without role or content",
		parquetOf(t, messages[spoken]{[]spoken{{}}}):   "row 1: messages is null or empty",
		parquetOf(t, messages[spoken]{}):               "row 1: messages is null or empty",
		parquetOf(t, messages[string]{[]string{"a"}}):  "column messages.list.element",
	} {
		if _, err := reading(path); err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%v; want %q", err, says)
		}
	}
	long := make([]text[string], 0, 200)
	for i := range cap(long) {
		long = append(long, text[string]{fmt.Sprint(i, strings.Repeat("x", maxText/100))})
	}
	if _, err := reading(parquetOf(t, long...)); err == nil || !strings.Contains(err.Error(), textLimit) &&
		!errors.Is(err, pack.ErrLimit) {
		t.Errorf("texts of more than %s: %v", textLimit, err)
	}
	if _, err := reading(parquetOf(t, make([]text[string], maxText/valueBytes+1)...)); err == nil ||
		!strings.Contains(err.Error(), textLimit) {
		t.Errorf("too many empty texts: %v", err)
	}
}

// TestInteropParquet: files that pyarrow writes are read as the JSON Lines of the same rows.
func TestInteropParquet(t *testing.T) {
	var texts, chats bytes.Buffer
	for i := range 40 {
		words := strings.Repeat(fmt.Sprintf("Wörter %d. ", i%3), i)
		fmt.Fprintf(&texts, `{"id": %d, "text": %q}`+"\n", i, words)
		fmt.Fprintf(&chats, `{"messages": [{"role": "user", "content": %q}`, words)
		for k := range i % 4 {
			fmt.Fprintf(&chats, `, {"role": "assistant", "content": "%d"}`, k)
		}
		chats.WriteString("]}\n")
	}
	for name, rows := range map[string]*bytes.Buffer{"texts": &texts, "chats": &chats} {
		lines := filepath.Join(t.TempDir(), "t.jsonl")
		list := filepath.Join(t.TempDir(), "t.json")
		dir := t.TempDir()
		array := "[" + strings.ReplaceAll(strings.TrimSpace(rows.String()), "\n", ",") + "]"
		if err := errors.Join(os.WriteFile(lines, rows.Bytes(), 0o600),
			os.WriteFile(list, []byte(array), 0o600)); err != nil {
			t.Fatal(err)
		}
		want, err := reading(lines)
		if err != nil {
			t.Fatal(err)
		}
		var count int
		written := interop.Python(t, "lm-eval", "testdata/parquet_writer.py", list, dir)
		if err := json.Unmarshal(written, &count); err != nil {
			t.Fatal(err)
		}
		for i := range count {
			path := filepath.Join(dir, fmt.Sprintf("%02d.parquet", i))
			for k := range want {
				want[k].Origin = fmt.Sprintf("%s, row %d", path, k+1)
			}
			if got, err := reading(path); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, file %d: %v", name, i, err)
			}
		}
	}
}
