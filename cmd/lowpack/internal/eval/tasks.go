package eval

import (
	"unicode/utf8"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/questions"
)

// TaskResult is what a model scores in a task.
type TaskResult struct {
	Task        questions.Task `json:"task"`
	Questions   int            `json:"questions"`
	BeginOfText bool           `json:"begin_of_text"`
	Scores
	Against *TaskAgainst `json:"against,omitempty"`
	Answers []Answer     `json:"answers"` // of this model, by question
}

// Scores are the figures that lm-evaluation-harness has under these names. A word is right if it is greedy, one of
// several endings if its log-likelihood is the largest, for AccNorm that over its characters.
type Scores struct {
	Acc        Figure  `json:"acc"`                  // share of right answers
	AccNorm    *Figure `json:"acc_norm,omitempty"`   // of several endings
	Perplexity *Figure `json:"perplexity,omitempty"` // of the last word: e^(−mean log-likelihood)
}

// TaskAgainst compares with another model, question by question. Change has acc and acc_norm of this model minus those
// of the other, and its perplexity over that of the other.
type TaskAgainst struct {
	Scores    Scores `json:"scores"` // of the other model
	Change    Scores `json:"change"`
	Agreement Figure `json:"agreement"` // share of questions that both answer alike, right or wrong
}

// Judge makes the result of a task of the answers of a model, and of another one's if there is one (nil = none).
func Judge(task questions.Task, list []questions.Question, answers, other []Answer) *TaskResult {
	a := marksOf(task, list, answers)
	r := &TaskResult{Task: task, Questions: len(list), Scores: a.scores(), Answers: answers}
	if other != nil {
		b := marksOf(task, list, other)
		r.Against = &TaskAgainst{Scores: b.scores(), Change: a.minus(b).scores(), Agreement: a.agreement(b)}
	}
	return r
}

// marks has a column for each figure, by question; nil if the task does not have it.
type marks struct {
	picked []int // −1 = none
	acc    []float64
	norm   []float64
	losses []float64 // in nats
}

func marksOf(task questions.Task, list []questions.Question, answers []Answer) (m marks) {
	mark := m.word
	if task == questions.Cloze {
		mark = m.choice
	}
	for i := range answers {
		picked := mark(&list[i], &answers[i])
		m.picked, m.acc = append(m.picked, picked), append(m.acc, one(picked == list[i].Right))
	}
	return m
}

// word marks the answer to a question for a word, which is picked if it is greedy.
func (m *marks) word(_ *questions.Question, a *Answer) (picked int) {
	m.losses = append(m.losses, -a.LogLikelihoods[0])
	if !a.Greedy[0] {
		return -1
	}
	return 0
}

// choice marks the answer to a question with several endings.
func (m *marks) choice(q *questions.Question, a *Answer) (picked int) {
	norm := argmax(a.LogLikelihoods, func(e int) int { return utf8.RuneCountInString(q.Endings[e]) })
	m.norm = append(m.norm, one(norm == q.Right))
	return argmax(a.LogLikelihoods, func(int) int { return 1 })
}

// argmax returns the first of the endings whose log-likelihood over their length is largest.
func argmax(of []float64, length func(int) int) (best int) {
	for i := range of {
		if of[i]/float64(length(i)) > of[best]/float64(length(best)) {
			best = i
		}
	}
	return best
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// same is what bootstrap makes of a mean that is a figure itself.
func same(mean float64) float64 { return mean }

func (m marks) scores() (s Scores) {
	s.Acc = bootstrap(m.acc, same)
	if m.norm != nil {
		f := bootstrap(m.norm, same)
		s.AccNorm = &f
	}
	if m.losses != nil {
		f := bootstrap(m.losses, exp)
		s.Perplexity = &f
	}
	return s
}

// minus returns the differences from the marks of another model: errors of their means are those of paired figures.
func (m marks) minus(o marks) marks {
	return marks{acc: minus(m.acc, o.acc), norm: minus(m.norm, o.norm), losses: minus(m.losses, o.losses)}
}

func minus(a, b []float64) (list []float64) {
	for i := range a {
		list = append(list, a[i]-b[i])
	}
	return list
}

func (m marks) agreement(o marks) Figure {
	alike := make([]float64, len(m.picked))
	for i, picked := range m.picked {
		alike[i] = one(picked == o.picked[i])
	}
	return bootstrap(alike, same)
}
