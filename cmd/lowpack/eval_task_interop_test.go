package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/eval"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestInteropLMEvalTasks: the tasks of docs/examples/lm-eval give lm-eval, through the server, the answers and figures
// that `lowpack eval --task` has: log-likelihoods to the last digit.
func TestInteropLMEvalTasks(t *testing.T) {
	file, questions := tinymodel.Path(t), t.TempDir()
	s := serveFile(t, "", file)
	tasks := map[string]string{"last-word": "last_word", "cloze": "cloze", "passkey": "passkey"}
	want := map[string]*eval.TaskResult{}
	for task, name := range tasks {
		args := []string{file, "--task", task, "--file", tomSawyer, "--bos", "yes", "--json", "--questions",
			filepath.Join(questions, name+".jsonl")}
		if task == "passkey" { // lm-eval sends the last token too, and asks for one more
			args = append(args, "--window", "254")
		}
		stdout, stderr, code := runApp(t, evalCommand(), args...)
		want[name] = new(eval.TaskResult)
		if err := json.Unmarshal([]byte(stdout), want[name]); code != 0 || err != nil {
			t.Fatal(task, code, err, stderr)
		}
	}
	var got map[string]struct {
		Figures map[string]float64
		Answers []eval.Answer
	}
	out := interop.Python(t, "lm-eval", "testdata/lm_eval_tasks.py", s.url, "../../testdata/tiny-bitnet",
		"../../docs/examples/lm-eval", questions)
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, w := range want {
		g := got[name]
		if len(g.Answers) != w.Questions {
			t.Fatalf("%s: %d answers to %d questions", name, len(g.Answers), w.Questions)
		}
		for i, a := range g.Answers {
			if !reflect.DeepEqual(a, w.Answers[i]) {
				t.Errorf("%s, question %d: lm-eval %+v, lowpack eval %+v", name, i, a, w.Answers[i])
			}
		}
		for figure, f := range map[string]*eval.Figure{"acc": &w.Acc, "acc_norm": w.AccNorm,
			"perplexity": w.Perplexity} {
			value, has := g.Figures[figure]
			if has != (f != nil) || has && !near(value, f.Value) {
				t.Errorf("%s: %s is %v for lm-eval, %+v for lowpack eval", name, figure, value, f)
			}
		}
	}
}

// near reports whether figures are equal but for the order of sums.
func near(a, b float64) bool { return a == b || math.Abs(a/b-1) <= 1e-12 }
