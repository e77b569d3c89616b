package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/pack"
)

// benchModel is a model of bench report.
type benchModel struct {
	name  string // of synth --like
	tasks []bench.Work
	forms []benchForm
}

// benchForm is how one runtime gets a model.
type benchForm struct {
	runtime, version, weights, head string
	convert                         []string // flags of lowpack convert; for other runtimes before export
	dialect                         string   // of lowpack export --to gguf; "" = the runtime reads the checkpoint
	quantize                        []string // arguments of the program that quantizes, before the two files
	last                            string   // and behind them
	measure                         []string // of the program that measures
}

// Names of the other runtimes, which are those of their folders.
const (
	ikLlama  = "ik_llama.cpp"
	llamaCPP = "llama.cpp"
	openVINO = "openvino"
)

// peerKinds are the other runtimes, and their programs: one that quantizes, and one that measures.
var peerKinds = []struct{ name, quantize, measure string }{
	{ikLlama, "llama-quantize", "llama-batched-bench"},
	{llamaCPP, "llama-quantize", "llama-batched-bench"},
	{openVINO, "openvino-export", "openvino-batched-bench"},
}

// benchModels are what bench report measures. Heads of llama.cpp and ik_llama.cpp are Q6_K, their usual one, those of
// OpenVINO int8, that of its exporter. Heads of int6 are lowpack's nearest to Q6_K.
func benchModels(mini bool) []benchModel {
	prompt, one, several := 512, 64, 16
	if mini {
		prompt, one, several = 16, 4, 2
	}
	work := func(what string, tokens, batch int) bench.Work {
		return bench.Work{What: what, Tokens: tokens, Batch: batch}
	}
	all := []bench.Work{work(bench.Prompt, prompt, 1), work(bench.Generate, one, 1), work(bench.Generate, several, 8),
		work(bench.Generate, several, 32)}
	more := []bench.Work{work(bench.Context, prompt, 1), work(bench.Convert, 0, 0), work(bench.Verify, 0, 0)}
	own := func(weights, head string, convert ...string) benchForm {
		return benchForm{runtime: bench.Lowpack, weights: weights, head: head,
			convert: append(convert, "--golden", "none", "--head", head)}
	}
	q6k := []string{"--allow-requantize", "--token-embedding-type", "q6_K", "--output-tensor-type", "q6_K"}
	int4 := func(group string) []string {
		return []string{"--quant", "int4", "--scale", "group:" + group, "--allow-lossy"}
	}
	floats := []string{"--quant", "none", "--golden", "none"}
	repack := []string{"-rtr"}
	return []benchModel{
		{"bitnet-2b4t", append(slices.Clone(all), more...), []benchForm{
			own("vnni4i", "int8"),
			own("vnni4i", "int6", "--allow-lossy"),
			own("vnni4i", "int4", "--allow-lossy"),
			{runtime: ikLlama, weights: "IQ2_BN", head: "Q6_K", convert: []string{"--golden", "none"}, dialect: "ik",
				quantize: q6k, last: "IQ2_BN", measure: repack},
			{runtime: llamaCPP, weights: "TQ2_0", head: "Q6_K", convert: []string{"--golden", "none"},
				dialect: "llama.cpp", quantize: q6k, last: "TQ2_0"}}},
		{"llama-3.2-1b", all, []benchForm{
			own("int4 group 32", "int6", int4("32")...),
			own("int4 group 128", "int8", int4("128")...),
			{runtime: ikLlama, weights: "Q4_0", head: "Q6_K", convert: floats, dialect: "ik", quantize: q6k,
				last: "Q4_0", measure: repack},
			{runtime: llamaCPP, weights: "Q4_0", head: "Q6_K", convert: floats, dialect: "llama.cpp", quantize: q6k,
				last: "Q4_0"},
			{runtime: openVINO, weights: "int4 group 128", head: "int8", last: "128"}}},
	}
}

// works are the tasks with the name of the model.
func (m *benchModel) works() []bench.Work {
	list := slices.Clone(m.tasks)
	for i := range list {
		list[i].Model = m.name
	}
	return list
}

// available are the forms of lowpack and of runtimes that are there, with their versions.
func (m *benchModel) available(peers []peer) (list []benchForm) {
	for _, f := range m.forms {
		if f.runtime == bench.Lowpack {
			list = append(list, f)
		}
		for _, p := range peers {
			if p.runtime == f.runtime {
				f.version = p.version
				list = append(list, f)
			}
		}
	}
	return list
}

// peer is another runtime, with the paths of its programs.
type peer struct{ runtime, version, quantize, measure string }

// program is the path of a program in a folder.
func program(folder, name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(folder, name)
}

// findPeers looks for the other runtimes in a directory; none if it is "".
func findPeers(dir string) (list []peer, err error) {
	if dir == "" {
		return nil, nil
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	for _, kind := range peerKinds {
		folder := filepath.Join(dir, kind.name)
		version, err := readSmall(filepath.Join(folder, "version"), 1<<10)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		p := peer{kind.name, strings.TrimSpace(string(version)), program(folder, kind.quantize),
			program(folder, kind.measure)}
		for _, path := range []string{p.quantize, p.measure} {
			if _, err := os.Stat(path); err != nil {
				return nil, err
			}
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: %w: none of %s, %s and %s has a file version: packaging/runtimes builds them", dir,
			pack.ErrUnsupported, ikLlama, llamaCPP, openVINO)
	}
	return list, nil
}

// workshop makes the models of a report.
type workshop struct {
	context *cli.Context
	folder  string
	mini    bool
	peers   []peer
	roofs   *bench.Roofs
}

// runners returns how each form is measured. What is not in the folder is made.
func (w *workshop) runners() (list []bench.Runner, err error) {
	if w.folder, err = filepath.Abs(w.folder); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(w.folder, 0o777); err != nil {
		return nil, err
	}
	for _, m := range benchModels(w.mini) {
		like := ""
		for _, f := range m.available(w.peers) {
			file, err := w.model(&m, &f)
			if err != nil {
				return nil, err
			}
			if f.runtime == bench.Lowpack {
				like = file
				list = append(list, w.onFiles(&m, &f, file))
				continue
			}
			list = append(list, w.roofs.Peer(bench.Peer{Program: w.peer(&f).measure, Args: f.measure, Model: file,
				Like: like}))
		}
	}
	return list, nil
}

// onFiles is the runner of a form of lowpack, for work on files, too.
func (w *workshop) onFiles(m *benchModel, f *benchForm, file string) bench.Runner {
	onTokens := w.roofs.Packed(file)
	return func(ctx context.Context, work bench.Work) (rate, limit float64, err error) {
		if !work.OnFiles() {
			return onTokens(ctx, work)
		}
		source, err := w.checkpoint(m)
		if err != nil {
			return 0, 0, err
		}
		read, target := file, filepath.Join(w.folder, "partial.converted")
		args := []string{"verify", file, "--level", "codes"}
		if work.What == bench.Convert {
			defer os.Remove(target)
			read = filepath.Join(source, "model.safetensors")
			args = append([]string{"convert", source, "-o", target}, f.convert...)
		}
		info, err := os.Stat(read)
		if err != nil {
			return 0, 0, err
		}
		start := time.Now()
		if err := w.run(args...); err != nil {
			return 0, 0, err
		}
		return float64(info.Size()) / 1e9 / time.Since(start).Seconds(), bench.HashRate() / 1e9, nil
	}
}

// model returns the file of a form.
func (w *workshop) model(m *benchModel, f *benchForm) (string, error) {
	source, err := w.checkpoint(m)
	if err != nil {
		return "", err
	}
	name := strings.ReplaceAll(filepath.Base(source)+"."+f.runtime+"."+f.weights+"."+f.head, " ", "-")
	file := filepath.Join(w.folder, name)
	convert := func(to string) error {
		return w.run(slices.Concat([]string{"convert", source, "-o", to}, f.convert)...)
	}
	switch {
	case f.runtime == bench.Lowpack:
		return file, w.make(file, convert)
	case f.dialect == "":
		return file, w.make(file, func(to string) error { return w.quantize(f, source, to) })
	}
	file += ".gguf"
	return file, w.make(file, func(to string) error { return w.export(f, to, convert) })
}

// peer is the runtime of a form.
func (w *workshop) peer(f *benchForm) *peer {
	return &w.peers[slices.IndexFunc(w.peers, func(p peer) bool { return p.runtime == f.runtime })]
}

// quantize makes what another runtime multiplies.
func (w *workshop) quantize(f *benchForm, from, to string) error {
	args := slices.Concat(f.quantize, []string{from, to, f.last})
	cmd := exec.CommandContext(w.context.Context, w.peer(f).quantize, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out[max(0, len(out)-1000):])
	}
	return nil
}

// checkpoint makes the checkpoint of a model.
func (w *workshop) checkpoint(m *benchModel) (string, error) {
	dir, flags := filepath.Join(w.folder, m.name), []string{}
	if w.mini {
		dir, flags = dir+"-mini", []string{"--mini"}
	}
	return dir, w.make(dir, func(to string) error {
		return w.run(append([]string{"synth", "--like", m.name, "-o", to}, flags...)...)
	})
}

// export makes a GGUF for another runtime, in the types of which it multiplies.
func (w *workshop) export(f *benchForm, to string, convert func(string) error) error {
	packed, plain := to+".packed", to+".plain"
	defer os.Remove(packed)
	defer os.Remove(plain)
	if err := convert(packed); err != nil {
		return err
	}
	// The activation of BitNet is another one in llama.cpp, which does not change its speed.
	if err := w.run("export", packed, "--to", "gguf", "--dialect", f.dialect, "--force", "-o", plain); err != nil {
		return err
	}
	return w.quantize(f, plain, to)
}

// make calls do unless the file is there. It appears whole or not at all.
func (w *workshop) make(file string, do func(to string) error) error {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	partial := filepath.Join(w.folder, "partial."+filepath.Base(file))
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	fmt.Fprintf(w.context.App.ErrWriter, "making %s\n", filepath.Base(file))
	if err := do(partial); err != nil {
		return err
	}
	return os.Rename(partial, file)
}

// run runs a command of this program.
func (w *workshop) run(args ...string) error {
	c := w.context
	return run(c.Context, append([]string{"lowpack"}, append(args, "--quiet")...), c.App.Reader, io.Discard,
		c.App.ErrWriter)
}
