package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack"
	"github.com/lowpack/lowpack/cmd/lowpack/internal/eval"
	"github.com/lowpack/lowpack/cmd/lowpack/internal/questions"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/runtime/engine"
)

// checkTask refuses flags that mean nothing with --task, or nothing without it.
func checkTask(c *cli.Context) error {
	if !c.IsSet("task") && c.IsSet("questions") {
		return usagef("--questions needs --task")
	}
	for _, name := range []string{"stride", "tokens", "svg"} {
		if c.IsSet("task") && c.IsSet(name) {
			return usagef("--%s cannot be combined with --task", name)
		}
	}
	if task := c.String("task"); c.IsSet("window") && task != "" && task != string(questions.Passkey) {
		return usagef("--window cannot be combined with --task %s", task)
	}
	return nil
}

// runTask asks FILE, and the other model if there is one, the questions that a task makes of a text.
func runTask(c *cli.Context, text string) error {
	task, s := questions.Task(c.String("task")), &subjects{c: c}
	defer s.close()
	p := newCounter(besideResult(c), "eval", things("questions"))
	defer p.done()
	list, err := task.Make(c.String("file"), text, s.fits, func(done, total int) {
		p.setIn(things("sentences"), int64(done), int64(total), "make questions")
	})
	if err != nil {
		return err
	}
	if err := s.open(); err != nil {
		return err
	}
	asked, err := tokenize(c, s.list, list, p)
	if err != nil {
		return err
	}
	if path := c.String("questions"); path != "" {
		if err := writeFile(path, func(w io.Writer) error { return questions.Write(w, list) }); err != nil {
			return err
		}
	}
	answers, err := ask(c, s.list, asked, p)
	if err != nil {
		return err
	}
	p.done()
	r := eval.Judge(task, list, answers[0], answers[1])
	r.BeginOfText = !s.list[0].asked.Bare
	if c.Bool("json") {
		return printJSON(c.App.Writer, r)
	}
	printTask(c.App.Writer, r)
	return nil
}

// subject is an open model that is asked.
type subject struct {
	*lowpack.Model
	asked eval.Subject
}

// subjects are FILE and the model of --against, if there is one. They are opened once a task needs them: a checkpoint
// may have to be converted for that, in vain if the text has no questions.
type subjects struct {
	c    *cli.Context
	list []subject
}

func (s *subjects) open() (err error) {
	if s.list == nil {
		s.list, err = openSubjects(s.c)
	}
	return err
}

func (s *subjects) close() {
	for _, m := range s.list {
		m.Close()
	}
}

// fits accepts a question that is within the window for each model, in its own tokens.
func (s *subjects) fits(q *questions.Question) (bool, error) {
	if err := cmp.Or(s.open(), s.c.Context.Err()); err != nil {
		return false, err
	}
	for i := range s.list {
		if fits, err := s.list[i].asked.Within(s.c.Int("window"))(q); err != nil || !fits {
			return false, err
		}
	}
	return true, nil
}

// openSubjects opens all models. The caller closes those that are returned, with an error too.
func openSubjects(c *cli.Context) (list []subject, err error) {
	paths, cache := []string{c.Args().First()}, engine.CacheType(c.String("kv-cache-type"))
	if other := c.String("against"); other != "" {
		paths = append(paths, other)
	}
	for _, path := range paths {
		m, err := openForm(c, path, cache)
		if err != nil {
			return list, err
		}
		list = append(list, subject{Model: m})
		bare, err := bare(m, c.String("bos"))
		if err != nil {
			return list, filerr.Named(path, err)
		}
		bare = bare || m.Engine.Description().BOS < 0
		encode := func(text string) ([]int, error) { return m.Tokenizer.Encode(text, false) }
		list[len(list)-1].asked = eval.Subject{Engine: m.Engine, Encode: encode, Bare: bare, Path: path}
		cache = engine.CacheF32
	}
	return list, nil
}

// tokenize returns the questions in the tokens of each model. No model is asked before all of them can read all
// endings.
func tokenize(c *cli.Context, subjects []subject, list []questions.Question, p *progress) (asked [][]eval.Tokens,
	err error) {
	for i := range subjects {
		tokens, err := subjects[i].asked.Tokenize(c.Context, list, func(done int) {
			p.setIn(things("questions"), int64(i*len(list)+done), int64(len(subjects)*len(list)), "tokenize")
		})
		if err != nil {
			return nil, err
		}
		asked = append(asked, tokens)
		noteCut(c, &subjects[i], tokens)
	}
	return asked, nil
}

// noteCut tells of how many questions a model does not read the beginning.
func noteCut(c *cli.Context, m *subject, list []eval.Tokens) {
	cut := 0
	for i := range list {
		if list[i].Cut {
			cut++
		}
	}
	if cut > 0 {
		note(c, fmt.Sprintf("%s reads at most %d tokens: the beginning of %d of %s is left out, as "+
			"lm-evaluation-harness does", m.asked.Path, m.Engine.Options().Context, cut,
			counted(len(list), "question")))
	}
}

// ask returns the answers of one or two models; those of the second are nil if there is one.
func ask(c *cli.Context, subjects []subject, asked [][]eval.Tokens, p *progress) (answers [2][]eval.Answer,
	err error) {
	for i := range subjects {
		n := len(asked[i])
		answers[i], err = eval.Ask(c.Context, &subjects[i].asked, asked[i], func(done int) {
			p.set(int64(i*n+done), int64(len(subjects)*n), "")
		})
		if err != nil {
			return answers, err
		}
	}
	return answers, nil
}

func printTask(w io.Writer, r *eval.TaskResult) {
	begin := ", each after the begin-of-text token"
	if !r.BeginOfText {
		begin = ""
	}
	deviation := func(text string) string {
		if r.Questions == 1 { // has none
			return "–"
		}
		return text
	}
	percent := func(f eval.Figure) string {
		return fmt.Sprintf("%.2f ± %s %%", 100*f.Value, deviation(fmt.Sprintf("%.2f", 100*f.Error)))
	}
	number := func(f eval.Figure) string { return decimals(f.Value) + " ± " + deviation(decimals(f.Error)) }
	points := func(f eval.Figure) string {
		return fmt.Sprintf("%+.2f ± %s points", 100*f.Value, deviation(fmt.Sprintf("%.2f", 100*f.Error)))
	}
	rows := [][]string{{"questions", fmt.Sprintf("%d of the task %s%s", r.Questions, r.Task, begin)}}
	add := func(s *eval.Scores, acc, norm, perplexity string, share func(eval.Figure) string) {
		rows = append(rows, []string{acc, share(s.Acc)})
		if s.AccNorm != nil {
			rows = append(rows, []string{norm, share(*s.AccNorm)})
		}
		if s.Perplexity != nil {
			rows = append(rows, []string{perplexity, number(*s.Perplexity)})
		}
	}
	add(&r.Scores, "acc", "acc_norm", "perplexity of the "+r.Task.Word(), percent)
	if a := r.Against; a != nil {
		add(&a.Scores, "other's acc", "other's acc_norm", "other's perplexity", percent)
		add(&a.Change, "difference of acc", "difference of acc_norm", "perplexity ratio", points)
		rows = append(rows, []string{"same answer", percent(a.Agreement)})
	}
	table(w, nil, rows)
}

// decimals prints a perplexity, or its error, with four decimals, and from a million on with four digits.
func decimals(x float64) string {
	if x < 1e6 {
		return fmt.Sprintf("%.4f", x)
	}
	return fmt.Sprintf("%.4g", x)
}
