package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// calibrationFrom is the character of the text at which the calibration text begins.
const calibrationFrom = 600000

// measure converts the model in each way that has flags and a part of the name, and evaluates the result, which is kept
// at once.
func (r *Results) measure(data, model, text, part string) error {
	dir, err := os.MkdirTemp("", "quality")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	m := &measuring{r: r, model: model, dir: dir, text: text}
	if err := m.prepare(); err != nil {
		return err
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Flags == nil || !strings.Contains(row.Form, part) {
			continue
		}
		if err := m.row(row); err != nil {
			return err
		}
		if err := r.write(data); err != nil {
			return err
		}
		fmt.Printf("%s: %.4f\n", row.Form, row.Perplexity)
	}
	return nil
}

// measuring has the files of measurements in a folder.
type measuring struct {
	r                   *Results
	model, dir          string
	text                string
	second, calibration string // parts of the text
	floats              string // the model without quantization
	layers              string // the model with floats for its layers, and codes of the embedding; "" = not made yet
}

// prepare writes the parts of the text and the floats.
func (m *measuring) prepare() error {
	whole, err := os.ReadFile(m.text)
	if err != nil {
		return err
	}
	characters := []rune(string(whole))
	if len(characters) <= calibrationFrom {
		return fmt.Errorf("%s has %d characters; those from %d on are the calibration text", m.text, len(characters),
			calibrationFrom)
	}
	m.second, m.calibration = filepath.Join(m.dir, "second.txt"), filepath.Join(m.dir, "calibration.txt")
	for path, from := range map[string]int{m.second: m.r.Second.From, m.calibration: calibrationFrom} {
		if err := os.WriteFile(path, []byte(string(characters[from:])), 0o600); err != nil {
			return err
		}
	}
	m.floats = filepath.Join(m.dir, "floats.safetensors")
	_, err = lowpack("convert", m.model, "-o", m.floats, "--golden", "none", "--quant", "none")
	return err
}

// source is what a row is made of: the model, or one with floats for its layers where forms are chosen, of which codes
// that the model has of a layer would be one.
func (m *measuring) source(row *Row) (string, error) {
	if !slices.Contains(row.Flags, "--bits") {
		return m.model, nil
	}
	if m.layers != "" {
		return m.layers, nil
	}
	in := func(name string) string { return filepath.Join(m.dir, name) }
	err := os.WriteFile(in("recipe"), []byte("rules: [{match: '*.layers.*', quant: none}]"), 0o600)
	for _, args := range [][]string{
		{"convert", m.model, "-o", in("layers.safetensors"), "--golden", "none", "--allow-lossy", "--recipe",
			in("recipe")},
		{"export", in("layers.safetensors"), "--to", "gguf", "-o", in("layers.gguf")},
	} {
		if err == nil {
			_, err = lowpack(args...)
		}
	}
	m.layers = in("layers.gguf")
	return m.layers, err
}

// row measures one form on both texts.
func (m *measuring) row(row *Row) error {
	file := filepath.Join(m.dir, "model.safetensors")
	model, err := m.source(row)
	if err != nil {
		return err
	}
	args := append([]string{"convert", model, "-o", file, "--golden", "none"}, row.Flags...)
	for i, word := range args {
		if word == "TEXT" {
			args[i] = m.calibration
		}
	}
	if _, err := lowpack(args...); err != nil {
		return err
	}
	first, err := m.evaluate(file, m.text, m.r.Tokens)
	if err != nil {
		return err
	}
	second, err := m.evaluate(file, m.second, m.r.Second.Tokens)
	if err != nil {
		return err
	}
	row.Perplexity, row.Against, row.Second = round(first.Perplexity, 3), first.against(), new(Against)
	row.Against.Ratio = 0 // the perplexity says it
	*row.Second = second.against()
	return nil
}

// evaluation is what lowpack eval says of a file and the floats.
type evaluation struct {
	Perplexity float64
	Against    struct {
		Ratio      float64 `json:"perplexity_ratio"`
		Error      float64 `json:"perplexity_ratio_error"`
		Divergence float64 `json:"mean_kl"`
	}
}

func (m *measuring) evaluate(file, text string, tokens int) (e evaluation, err error) {
	out, err := lowpack("eval", file, "--against", m.floats, "--text", text, "--bos", "yes",
		"--window", fmt.Sprint(m.r.Window), "--tokens", fmt.Sprint(tokens), "--json")
	if err != nil {
		return e, err
	}
	return e, json.Unmarshal(out, &e)
}

func (e evaluation) against() Against {
	a := e.Against
	return Against{Ratio: round(a.Ratio, 4), Error: round(a.Error, 4), Divergence: round(a.Divergence, 4)}
}

// round leaves so many digits after the point.
func round(x float64, places int) float64 {
	unit := math.Pow10(places)
	return math.Round(unit*x) / unit
}

func lowpack(args ...string) ([]byte, error) {
	c := exec.Command("bin/lowpack", args...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%q: %w", c.Args, err)
	}
	return out, nil
}
