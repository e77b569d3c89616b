package questions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lowpack/lowpack/pack"
)

func book(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../testdata/tom-sawyer/chapters-1-8.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestBook: the questions of the text in testdata are within the bounds, and in the text.
func TestBook(t *testing.T) {
	text := strings.Join(strings.Fields(book(t)), " ")
	for task, count := range map[Task]int{LastWord: 68, Cloze: 183} {
		list, err := task.Make("", book(t), nil, nil)
		if err != nil || len(list) != count {
			t.Fatalf("%s: %d questions, %d expected: %v", task, len(list), count, err)
		}
		places := [choices]int{}
		for i, q := range list {
			right := q.Context + q.Endings[q.Right]
			n := utf8.RuneCountInString(strings.TrimSuffix(q.Context, " "))
			if !strings.Contains(text, right) || n < leastContext || n > mostContext {
				t.Errorf("%s, question %d: %+v", task, i, q)
			}
			places[q.Right]++
		}
		if task == Cloze && slices.Max(places[:])-slices.Min(places[:]) > 1 {
			t.Errorf("the right ending is at the places %v", places)
		}
	}
}

// TestLastWord: which words are asked for.
func TestLastWord(t *testing.T) {
	const before = "Nobody in the whole village had ever seen the lantern, of which all spoke. "
	long := strings.Repeat(before, 5)
	for sentence, want := range map[string]string{
		"They took the Lantern.":            "Lantern",
		"They took the lantern!?”":          "lantern",
		"They took the candle.":             "",     // not mentioned
		"They took the lante.":              "",     // a part of a word
		"They have seen the all.":           "",     // three letters
		"They took the \"lantern.\"":        "",     // a quotation begins before it
		"They had the village's lantern's.": "",     // not letters alone
		"Lantern.":                          "",     // no word before it
		"Sie nahmen die Öl öl Ölöl ölöl.":   "ölöl", // mentioned in capitals
	} {
		list := lastWords(slices.Values([][]string{append(sentences(strings.Fields(long)), sentence)}))
		got := ""
		for _, q := range list {
			if start, _ := cutWord(sentence); start != "" && strings.HasSuffix(q.Context, start+" ") {
				got = q.Endings[0]
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", sentence, got, want)
		}
	}
}

// TestPassage: the shortest context within the bounds.
func TestPassage(t *testing.T) {
	of := func(lengths ...int) (block []string) {
		for _, n := range lengths {
			block = append(block, strings.Repeat("ä", n))
		}
		return append(block, "end")
	}
	for _, c := range []struct {
		block []string
		first int
		begin int // −1 = none
	}{
		{of(300), 0, 0},
		{of(299), 0, -1},
		{of(100, 199), 0, 0},
		{of(100, 198), 0, -1},
		{of(100, 300), 0, 1},
		{of(100, 300), 2, -1},
		{of(700), 0, 0},
		{of(701), 0, -1},
		{of(401, 298), 0, 0},
		{of(402, 298), 0, -1},
	} {
		begin, ok := passage(c.block, c.first, len(c.block)-1)
		if !ok {
			begin = -1
		}
		if begin != c.begin {
			t.Errorf("from %d: %d, want %d", c.first, begin, c.begin)
		}
	}
}

// TestClozes: passages do not overlap, and wrong endings are nearest in length.
func TestClozes(t *testing.T) {
	var block []string
	lengths := []int{40, 20, 19, 150, 151, 43, 80, 41, 42}
	for i, n := range lengths {
		block = append(block, strings.Repeat(string(rune('a'+i)), 300), strings.Repeat(string(rune('A'+i)), n))
	}
	list := clozes(slices.Values([][]string{block}))
	var got []string
	for _, q := range list {
		lengths := make([]int, len(q.Endings))
		for i, e := range q.Endings {
			lengths[i] = len(e)
		}
		got = append(got, fmt.Sprint(lengths, q.Right))
	}
	want := []string{"[40 41 42 43] 0", "[40 20 41 42] 1", "[42 43 150 80] 2", "[40 41 42 43] 3", "[80 41 42 43] 0",
		"[40 41 42 43] 1", "[40 41 42 43] 2"}
	if !slices.Equal(got, want) {
		t.Errorf("lengths and right ones %q, want %q", got, want)
	}
}

// TestSpaceless: between sentences and lines of a script without spaces there are none, nor before an ending.
func TestSpaceless(t *testing.T) {
	var text, lines string
	for i := range 4 {
		s, e := strings.Repeat(string(rune('一'+i)), 299)+"！？", strings.Repeat(string(rune('十'+i)), 20)+"。"
		text, lines = text+s+e, lines+s[:90]+"\n"+s[90:]+e+"\n"
	}
	list, err := Cloze.Make("", lines, nil, nil)
	if err != nil || len(list) != 4 {
		t.Fatal(list, err)
	}
	for _, q := range list {
		if !strings.Contains(text, q.Context+q.Endings[q.Right]) {
			t.Errorf("%+v", q)
		}
	}
}

// TestNearest: of endings that are as near, the shorter is taken; each is there once.
func TestNearest(t *testing.T) {
	all := []string{"a", "aaa", "aaaaa", "aaaaaaa", "aaaaaaaaa"}
	for at, want := range [][]int{{3, 5, 7}, {1, 5, 7}, {1, 3, 7}, {3, 5, 9}, {3, 5, 7}} {
		var got []int
		for _, s := range nearest(all, at) {
			got = append(got, len(s))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("at %d: %v, want %v", at, got, want)
		}
	}
	q := []Question{{Endings: []string{"b"}}, {Endings: []string{"aa"}}, {Endings: []string{"b"}}}
	if got := byLength(q); !slices.Equal(got, []string{"b", "aa"}) {
		t.Errorf("endings %q", got)
	}
}

// TestNone: a text without a question is refused, whatever it is.
func TestNone(t *testing.T) {
	line := strings.Repeat("The lantern of the village went out when the lantern fell. ", 10)
	for _, text := range []string{"", "word", "\n\n", line[:200], strings.Repeat("word ", 1000),
		strings.Repeat("字。", 100)} {
		for task, word := range map[Task]string{LastWord: "300", Cloze: "300", Passkey: "longer than the window"} {
			_, err := task.Make("book.txt", text, within(1<<20), ignore)
			if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), word) ||
				!strings.HasPrefix(err.Error(), "book.txt: ") {
				t.Errorf("%s of %.20q: %v", task, text, err)
			}
		}
	}
	for text, word := range map[string]string{"One\xff. Two.": "not UTF-8", "One.\x00 Two.": "null"} {
		for _, task := range List() {
			_, err := task.Make("", text+line, nil, nil)
			if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), word) {
				t.Errorf("%s of %q: %v", task, text, err)
			}
		}
	}
	// Equal endings are no choice.
	if _, err := Cloze.Make("", strings.Repeat(line, 10), nil, nil); err == nil {
		t.Error("four equal endings")
	}
}

// TestWrite: a line of JSON for each question.
func TestWrite(t *testing.T) {
	list := []Question{{"A \"b\" <c>", []string{"d\u2028", "é"}, 1}, {"x", []string{"y"}, 0}}
	var out bytes.Buffer
	if err := Write(&out, list); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for i, line := range lines {
		var q Question
		if err := json.Unmarshal([]byte(line), &q); err != nil || !reflect.DeepEqual(q, list[i]) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if want := `{"context":"A \"b\" <c>","endings":["d\u2028","é"],"right":1}`; len(lines) != 2 || lines[0] != want {
		t.Errorf("%s, want %s", lines, want)
	}
}
