package thinking

import (
	"slices"
	"testing"
)

// TestReader: thoughts are found wherever pieces end, also if the prompt ends with the first mark; text that only
// resembles a mark, and marks within the answer, stay as they are.
func TestReader(t *testing.T) {
	for _, c := range []struct{ prompt, output, thought, answer string }{
		{"", "<think>\nWell, 1 < 2.\n</think>\n\nYes.\n", "Well, 1 < 2.", "Yes.\n"},
		{"", " \n<think>Well.\n\nSo.</think>Yes.", "Well.\n\nSo.", "Yes."},
		{"", "<think>\n\n</think>\n\nYes.", "", "Yes."},
		{"<assistant><think>\n", "Well.</think>Yes.", "Well.", "Yes."},
		{"<assistant><think>", "\n<think>\nWell.</think>Yes.", "Well.", "Yes."},
		{"<assistant><think>", "<thinking> helps.\n</think>\nYes.", "<thinking> helps.", "Yes."},
		{"<assistant><think>", "</think>Yes.", "", "Yes."},
		{"<assistant><think>", "cut off \n", "cut off", ""},
		{"<assistant><think>", "cut off </thi", "cut off </thi", ""},
		{"<assistant><think>", "\n <thi", "<thi", ""},
		{"<assistant><think> off", "Yes.", "", "Yes."},
		{"", "<think>cut off", "cut off", ""},
		{"", "<think>a</think>b</think> <think>c", "a", "b</think> <think>c"},
		{"", "a<think>b</think>c", "", "a<think>b</think>c"},
		{"", "No <thinking> here </think>.", "", "No <thinking> here </think>."},
		{"", "<thinking>", "", "<thinking>"},
		{"", "\n\n Yes.\n", "", "\n\n Yes.\n"},
		{"", " <thi", "", " <thi"},
		{"", " ", "", " "},
		{"", "", "", ""},
	} {
		for size := 1; size <= len(c.output)+1; size++ {
			r, thought, answer := New(c.prompt), "", ""
			take := func(more, text string) {
				if more != "" && answer != "" {
					t.Errorf("%q in pieces of %d: thought %q after the answer %q", c.output, size, more, answer)
				}
				thought, answer = thought+more, answer+text
			}
			for piece := range slices.Chunk([]byte(c.output), size) {
				take(r.Add(string(piece)))
			}
			take(r.End())
			if thought != c.thought || answer != c.answer {
				t.Errorf("%q in pieces of %d: %q and %q, want %q and %q", c.output, size, thought, answer, c.thought,
					c.answer)
			}
		}
	}
}

// TestThinking: a model thinks from the first mark, which may stand in the prompt, to the last one.
func TestThinking(t *testing.T) {
	for _, prompt := range []string{"", "<think>\n"} {
		r := New(prompt)
		for _, step := range []struct {
			piece string
			want  bool
		}{{"", prompt != ""}, {"<think>", true}, {"Well.", true}, {"</thi", true}, {"nk>", false}, {"Yes.", false}} {
			if r.Add(step.piece); r.Thinking() != step.want {
				t.Errorf("prompt %q, after %q: %v", prompt, step.piece, !step.want)
			}
		}
	}
}
