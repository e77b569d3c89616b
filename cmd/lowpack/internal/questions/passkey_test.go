package questions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// within accepts questions of at most so many characters, as they are read.
func within(most int) Fits {
	return func(q *Question) (bool, error) { return length(q) <= most, nil }
}

func ignore(int, int) {}

func length(q *Question) int { return utf8.RuneCountInString(q.Context + q.Endings[0]) }

// TestPasskeys: passages follow each other, each with as many sentences as fit, and state their key once, at each depth
// in turn and before a sentence.
func TestPasskeys(t *testing.T) {
	const most = 3000
	all := slices.Concat(slices.Collect(Sentences(book(t)))...)
	var told []int
	list, err := Passkey.Make("", book(t), within(most), func(done, total int) {
		if told = append(told, done); total != len(all) {
			t.Errorf("%d sentences of %d, which are %d", done, total, len(all))
		}
	})
	if err != nil || len(list) != 36 {
		t.Fatalf("%d questions: %v", len(list), err)
	}
	keys, whole := map[string]bool{}, len(all)
	for i, q := range list {
		key := q.Endings[0]
		keys[key] = true
		text, asked := strings.CutSuffix(q.Context, " What is the pass key? The pass key is ")
		before, after, found := strings.Cut(text, "The pass key is "+key+". ") // a sentence follows
		if !asked || !found || len(key) != 5 || key[0] == '0' || strings.Count(q.Context, key) != 1 || q.Right != 0 {
			t.Fatalf("question %d: %+v", i, q)
		}
		n := 0
		for n < len(all) && len(join(all[:n])) < len(before+after) {
			n++
		}
		if join(all[:n]) != before+after || length(&q) > most || length(&q)+1+utf8.RuneCountInString(all[n]) <= most {
			t.Errorf("question %d has %d characters, of %d sentences", i, length(&q), n)
		}
		at, total := 0, utf8.RuneCountInString(strings.Join(all[:n], ""))
		for at < n && len(join(all[:at])) < len(strings.TrimSuffix(before, " ")) {
			at++
		}
		share := func(n int) int { return 100 * utf8.RuneCountInString(strings.Join(all[:n], "")) / total }
		if depth := 10 + i%5*20; share(at) < depth && at < n-1 || share(at-1) >= depth {
			t.Errorf("question %d: key at %d %%, want %d %%", i, share(at), depth)
		}
		all = all[n:]
		if i >= len(told) || told[i] != whole-len(all) {
			t.Fatalf("question %d: %d sentences are left of %d; told %v", i, len(all), whole, told)
		}
	}
	if len(keys) != len(list) {
		t.Errorf("%d keys of %d questions", len(keys), len(list))
	}
	again, err := Passkey.Make("", book(t), within(most), ignore)
	if fmt.Sprint(again, err) != fmt.Sprint(list, nil) {
		t.Error("the same text makes other questions")
	}
}

// TestPasskeyShort: a sentence too long for any passage is left out, as are passages of four sentences.
func TestPasskeyShort(t *testing.T) {
	short := strings.Repeat("The lantern went out when it fell. ", 6)
	most := length(hide("12345", strings.SplitAfter(strings.TrimSpace(short), ". ")[:5], 50))
	for text, want := range map[string]int{
		short: 1,
		strings.Repeat("word ", 100) + "end. " + short:               1,
		short[:35*4] + "Some " + strings.Repeat("word ", 9) + "end.": 0,
	} {
		list, err := Passkey.Make("", text, within(most), ignore)
		if len(list) != want || (err == nil) != (want > 0) {
			t.Errorf("%.40q: %d questions, want %d: %v", text, len(list), want, err)
		}
	}
}

// TestPasskeyFails: what keeps questions from being measured is the error, and no fault of the text.
func TestPasskeyFails(t *testing.T) {
	broken := errors.New("broken")
	_, err := Passkey.Make("book.txt", book(t), func(q *Question) (bool, error) {
		if length(q) > 2000 {
			return false, broken
		}
		return true, nil
	}, ignore)
	if err != broken {
		t.Error(err)
	}
}

// TestHide: the key is before the first sentence that begins at the depth, and never behind the last.
func TestHide(t *testing.T) {
	ten := strings.Split("Abc. Bcd. Cde. Def. Efg. Fgh. Ghi. Hij. Ijk. Jkl.", " ")
	for _, c := range []struct {
		sentences []string
		depth     int
		before    string // what follows the key
	}{{ten, 10, "Bcd."}, {ten, 30, "Def."}, {ten, 31, "Efg."}, {ten, 90, "Jkl."}, {ten, 100, "Jkl."},
		{[]string{"Äbc.", "Öcd.", "A long sentence."}, 30, "A long"}} {
		q := hide("12345", c.sentences, c.depth)
		if !strings.Contains(q.Context, " The pass key is 12345. "+c.before) {
			t.Errorf("depth %d: %s", c.depth, q.Context)
		}
	}
}

func TestMost(t *testing.T) {
	for limit := range 20 {
		for accepted := range 25 {
			asked := 0
			n, err := most(limit, func(n int) (bool, error) {
				if asked++; n < 1 || n > limit {
					t.Errorf("%d asked for, of 1 to %d", n, limit)
				}
				return n <= accepted, nil
			})
			if want := min(limit, accepted); n != want || err != nil || asked > 10 {
				t.Errorf("%d of %d: %d, %v, %d times asked", accepted, limit, n, err, asked)
			}
		}
	}
}
