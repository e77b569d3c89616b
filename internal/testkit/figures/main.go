// Command figures writes figures that were measured into the sentences that state them: the README and messages of the
// program (make generate). The sources are docs/quality/smollm2.json and the tables of docs/QUALITY.md and
// docs/BENCHMARKS.md.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// statement is a sentence of a file that states figures: a regular expression with a group for each.
type statement struct {
	file, sentence string
	figures        []figure
}

// figure finds a number in the sources, as the sentence prints it.
type figure func(*sources) (string, error)

// statements are all places outside docs/QUALITY.md and docs/BENCHMARKS.md that state their figures, but for
// convert.Offers, which TestFresh of package quality holds.
func statements() []statement {
	return []statement{
		{"README.md", `in groups of 32 columns ([0-9.]+) % perplexity on SmolLM2-135M, ([0-9.]+) % with ` +
			"`--calibrate TEXT`, iq4nl ([0-9.]+) and ([0-9.]+) %; int3 ([0-9.]+) and ([0-9.]+) %, int8 ([0-9.]+) %",
			[]figure{loss("lowpack int4, group 32", 0), loss("lowpack int4, group 32, GPTQ", 1),
				loss("lowpack iq4nl, group 32", 0), loss("lowpack iq4nl, group 32, GPTQ", 1),
				loss("lowpack int3, group 32", 0), loss("lowpack int3, group 32, GPTQ", 0),
				loss("lowpack int8, per row", 2)}},
		{"README.md", "`--quant int3 --calibrate` loses ([0-9.]+) % of perplexity at 3.5 bits",
			[]figure{loss("lowpack int3, group 32, GPTQ", 0)}},
		speeds("Emerald Rapids with AMX"), speeds("Emerald Rapids"), speeds("Zen 4"), speeds("Zen 5"),
		{"cmd/lowpack/convert.go", `perplexity of the bundled model \+([0-9.]+) %\), int6 \(a scale per group of 64 ` +
			`columns; \+([0-9.]+) % " \+\s+"there, \+([0-9.]+) % with SmolLM2-135M\), int4 \(a scale per group of 32 ` +
			`columns; \+([0-9.]+) % and " \+\s+"\+([0-9.]+) %\)`,
			[]figure{head("int8", 2), head("int6", 1), alone("int6"), head("int4", 1), alone("int4")}},
	}
}

// sources are what was measured.
type sources struct {
	Float float64 `json:"float"` // perplexity of SmolLM2-135M in floats
	Rows  []struct {
		Form       string  `json:"form"`
		Perplexity float64 `json:"perplexity"`
	} `json:"rows"`
	page       string // docs/QUALITY.md
	benchmarks string // docs/BENCHMARKS.md
}

func readSources(root string) (*sources, error) {
	s := &sources{}
	text, err := os.ReadFile(filepath.Join(root, "docs/quality/smollm2.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, err
	}
	for path, page := range map[string]*string{"docs/QUALITY.md": &s.page, "docs/BENCHMARKS.md": &s.benchmarks} {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, err
		}
		*page = string(text)
	}
	return s, nil
}

// ratio of the perplexity of a form of SmolLM2-135M to that of its floats, less one.
func (s *sources) ratio(form string) (float64, error) {
	for _, r := range s.Rows {
		if r.Form == form {
			return r.Perplexity/s.Float - 1, nil
		}
	}
	return 0, fmt.Errorf("docs/quality/smollm2.json has no form %q", form)
}

// loss in per cent, with so many digits after the point.
func loss(form string, places int) figure {
	return func(s *sources) (string, error) {
		x, err := s.ratio(form)
		return strconv.FormatFloat(100*x, 'f', places, 64), err
	}
}

// head is the loss of a form of the bundled model's output head in per cent, from the table of docs/QUALITY.md.
func head(name string, places int) figure {
	row := regexp.MustCompile("(?m)^\\| `--head " + name + "`[^|]*\\| [0-9.]+ \\| ([0-9.]+)")
	return func(s *sources) (string, error) {
		found := row.FindStringSubmatch(s.page)
		if found == nil {
			return "", fmt.Errorf("docs/QUALITY.md has no row of the head %s", name)
		}
		x, err := strconv.ParseFloat(found[1], 64)
		return strconv.FormatFloat(100*(x-1), 'f', places, 64), err
	}
}

// speeds is a row of the README: how many times faster than other runtimes a machine of docs/BENCHMARKS.md is.
func speeds(machine string) statement {
	st := statement{"README.md", `(?m)^\| ` + machine + ` \|`, nil}
	for _, model := range []string{"bitnet-2b4t", "llama-3.2-1b"} {
		for _, work := range []string{"prompt of 512", "generate 64"} {
			st.sentence += ` ([^|]*) \|`
			st.figures = append(st.figures, times(machine, model, work))
		}
	}
	st.sentence += "$"
	return st
}

// times are how many times faster than llama.cpp, ik_llama.cpp and OpenVINO some work was on a machine. A dash is for a
// runtime of which the machine has no row.
func times(machine, model, work string) figure {
	return func(s *sources) (string, error) {
		if s.table(machine) == "" {
			return "", fmt.Errorf("docs/BENCHMARKS.md has no table of %s", machine)
		}
		var list []string
		for _, runtime := range []string{"llama.cpp", "ik_llama.cpp", "openvino"} {
			text := "–"
			if s.measured(machine, model, runtime) {
				x, err := s.faster(machine, model+" | "+work+" | ", runtime)
				if err != nil {
					return "", err
				}
				text = strconv.FormatFloat(x, 'f', 1, 64)
			}
			list = append(list, text)
		}
		return strings.Join(list, ", "), nil
	}
}

// measured reports whether a machine has a row of a runtime for a model.
func (s *sources) measured(machine, model, runtime string) bool {
	row := regexp.MustCompile(`(?m)^\| ` + model + ` \| [^|]+ \| ` + runtime + ` \|`)
	return row.MatchString(s.table(machine))
}

// faster is the last column of the row of a runtime, or, beside OpenVINO, the ratio of the rates of rows in groups of
// 128.
func (s *sources) faster(machine, row, runtime string) (float64, error) {
	if runtime != "openvino" {
		return s.cell(machine, row+runtime, `.* ([0-9.]+) \|$`)
	}
	const groups, rate = " | int4 group 128 |", ` [^|]* \| ([0-9.]+) \|`
	own, err := s.cell(machine, row+"lowpack"+groups, rate)
	other, otherErr := s.cell(machine, row+runtime+groups, rate)
	return own / other, cmp.Or(err, otherErr)
}

// table is that of a machine of docs/BENCHMARKS.md.
func (s *sources) table(machine string) string {
	_, table, _ := strings.Cut(s.benchmarks, "\n### "+machine+"\n")
	table, _, _ = strings.Cut(table, "\n###")
	return table
}

// cell finds a number behind the beginning of a row, in the table of a machine.
func (s *sources) cell(machine, row, rest string) (float64, error) {
	found := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(row) + rest).FindStringSubmatch(s.table(machine))
	if found == nil {
		return 0, fmt.Errorf("docs/BENCHMARKS.md has no row of %s on %s", row, machine)
	}
	return strconv.ParseFloat(found[1], 64)
}

// alone is what a form of the output head of SmolLM2-135M costs in per cent, as a sentence of docs/QUALITY.md has it.
func alone(name string) figure {
	sentence := regexp.MustCompile("with `--head " + name + "` [0-9.]+ \\(\\+([0-9.]+) %;")
	return func(s *sources) (string, error) {
		found := sentence.FindStringSubmatch(s.page)
		if found == nil {
			return "", fmt.Errorf("docs/QUALITY.md does not say %s", sentence)
		}
		return found[1], nil
	}
}

// updated returns the text of a file with its figures as measured.
func (st *statement) updated(text string, s *sources) (string, error) {
	at := regexp.MustCompile(st.sentence).FindAllStringSubmatchIndex(text, -1)
	if len(at) != 1 {
		return "", fmt.Errorf("%s has %d sentences %s; want 1", st.file, len(at), st.sentence)
	}
	for i := len(st.figures) - 1; i >= 0; i-- { // the last one first: places before it stay
		is, err := st.figures[i](s)
		if err != nil {
			return "", err
		}
		text = text[:at[0][2+2*i]] + is + text[at[0][3+2*i]:]
	}
	return text, nil
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: figures ROOT")
	}
	if err := write(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func write(root string) error {
	s, err := readSources(root)
	if err != nil {
		return err
	}
	for _, st := range statements() {
		path := filepath.Join(root, st.file)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fresh, err := st.updated(string(text), s)
		if err != nil {
			return err
		}
		if fresh != string(text) {
			if err := os.WriteFile(path, []byte(fresh), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
