//go:build unix

package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/race"
)

// sparse writes a checkpoint whose weights are a hole in a file: any size, no disk space.
func sparse(t *testing.T, layers, hidden, intermediate, vocab int) (dir string, largest int) {
	t.Helper()
	config := map[string]any{
		"architectures":           []string{"BitNetForCausalLM"},
		"model_type":              "bitnet",
		"hidden_act":              "relu2",
		"hidden_size":             hidden,
		"intermediate_size":       intermediate,
		"num_attention_heads":     32,
		"num_key_value_heads":     8,
		"num_hidden_layers":       layers,
		"vocab_size":              vocab,
		"max_position_embeddings": 4096,
		"rms_norm_eps":            1e-5,
		"rope_theta":              500000,
		"tie_word_embeddings":     true,
		"quantization_config": map[string]any{"quant_method": "bitnet", "linear_class": "autobitlinear",
			"quantization_mode": "online"},
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	d, err := model.Parse(text, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var infos []safetensors.TensorInfo
	for _, n := range d.Tensors() {
		x := safetensors.TensorInfo{Name: n.Name, DType: safetensors.BF16}
		codes := 1
		for _, dim := range n.Shape {
			x.Shape = append(x.Shape, int64(dim))
			codes *= dim
		}
		if n.Linear {
			largest = max(largest, codes)
		}
		infos = append(infos, x)
	}
	if err := safetensors.Place(infos); err != nil {
		t.Fatal(err)
	}
	header, err := safetensors.AppendHeader(nil, nil, infos, 8)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(onDisk(t), "sparse")
	weights := filepath.Join(dir, "model.safetensors")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{weights: header, filepath.Join(dir, "config.json"): text} {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(weights, int64(len(header))+infos[len(infos)-1].End); err != nil {
		t.Fatal(err)
	}
	return dir, largest
}

// TestMemory converts checkpoints of different sizes, with different numbers of goroutines, in a separate process and
// measures its anonymous memory: it is bounded and does not grow with the file. LOWPACK_LONG adds one of 20 GB.
func TestMemory(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes five to ten times the memory itself, so that no bound of the program can be " +
			"seen; what runs at once is raced by TestSameBytes and TestResume")
	}
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	type size struct {
		layers, hidden, intermediate, vocab, threads int
		layout, head                                 string
	}
	// vnni4i packs panels of rows, i2s single rows, hf-u8 the whole matrix. The last one has a head ten times as large
	// as the largest layer, which does not stay in memory.
	sizes := []size{
		{1, 2048, 8192, 1000, 2, "vnni4i", ""}, {4, 2048, 8192, 8000, 2, "vnni4i", ""}, {1, 2048, 8192, 1000, 64,
			"vnni4i", ""},
		{2, 2048, 8192, 1000, 2, "i2s", ""}, {2, 2048, 8192, 1000, 64, "hf-u8", ""}, {1, 1024, 4096, 81920, 2,
			"vnni4i", "int8"},
	}
	if long.All {
		sizes = []size{{2, 4096, 14336, 1000, 2, "vnni4i", ""}, {44, 4096, 14336, 128256, 2, "vnni4i", ""},
			{1, 4096, 14336, 128256, 2, "vnni4i", "int8"}}
	}
	first := int64(0)
	for _, s := range sizes {
		dir, largest := sparse(t, s.layers, s.hidden, s.intermediate, s.vocab)
		peak := peakAnonymous(t, dir, s.threads, s.layout, s.head)
		bound := int64(64<<20 + 2*largest)
		t.Logf("%d layers, %d threads, %s %s: %d MiB of at most %d MiB", s.layers, s.threads, s.layout, s.head,
			peak>>20, bound>>20)
		if peak > bound {
			t.Errorf("%d layers, %d threads: %d MiB of anonymous memory; at most %d MiB are allowed",
				s.layers, s.threads,
				peak>>20, bound>>20)
		}
		if first == 0 {
			first = peak
		}
		// When the collector runs moves the peak by some MiB; growth with the file, even by one byte in ten, would be
		// more.
		const moment = 24 << 20
		if s.threads == sizes[0].threads && s.layout == sizes[0].layout && peak > first+moment {
			t.Errorf("%d layers, %d threads: %d MiB; the smallest checkpoint takes %d", s.layers, s.threads,
				peak>>20, first>>20)
		}
		if peak < 1<<17 {
			t.Errorf("%d KiB are less than the codes of a block: this measures nothing", peak>>10)
		}
	}
}

// TestGoldenMemory records golden outputs, of a model with a head of 128 MB, in little more memory than the conversion
// itself: neither weights nor logits of all tokens are held.
func TestGoldenMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	dir, largest := sparse(t, 2, 2048, 8192, 32000)
	peak := peakAnonymous(t, dir, 2, "vnni4i", "", "LOWPACK_TEST_GOLDEN=full")
	bound := int64(96<<20 + 2*largest)
	t.Logf("%d MiB of at most %d MiB", peak>>20, bound>>20)
	if peak > bound {
		t.Errorf("%d MiB of anonymous memory; at most %d MiB are allowed", peak>>20, bound>>20)
	}
}

// TestMemoryLimit converts 0.3 GB of weights (LOWPACK_LONG: 0.5 GB) under a kernel memory limit of half that size, page
// cache included. Data read twice then comes from disk, and the output is identical. It needs permission to create a
// control group.
func TestMemoryLimit(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes memory itself")
	}
	layers, limit := 2, 128<<20
	if long.All {
		layers, limit = 4, 256<<20
	}
	group := memoryGroup(t, limit)
	dir, _ := sparse(t, layers, 2048, 8192, 8000)
	for _, layout := range []string{"vnni4i", "i2s"} {
		free, tight := newPlace(t, ""), place{dir: onDisk(t)} // a tmpfs would count as memory
		tight.target = filepath.Join(tight.dir, "out.safetensors")
		if err := <-startProcess(t, dir, free.target, 3, "LOWPACK_TEST_LAYOUT="+layout).done; err != nil {
			t.Fatal(err)
		}
		p := startProcess(t, dir, tight.target, 2, "LOWPACK_TEST_LAYOUT="+layout)
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(p.cmd.Process.Pid)),
			0o644); err != nil {
			p.cmd.Process.Kill()
			t.Fatal(err)
		}
		if err := <-p.done; err != nil {
			t.Fatalf("%v\n%s", err, p.out.String())
		}
		if digestAlone(t, tight) != digestAlone(t, free) {
			t.Errorf("%s: other bytes with little memory", layout)
		}
	}
}

// memoryGroup creates a control group with that limit, version 2 or 1.
func memoryGroup(t *testing.T, limit int) string {
	t.Helper()
	for _, g := range []struct{ root, file string }{{"/sys/fs/cgroup", "memory.max"},
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}} {
		dir := filepath.Join(g.root, fmt.Sprintf("lowpack-test-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { os.Remove(dir) })
		file, err := os.OpenFile(filepath.Join(dir, g.file), os.O_WRONLY, 0)
		if err != nil {
			continue
		}
		_, err = fmt.Fprint(file, limit)
		if errors.Join(err, file.Close()) == nil {
			return dir
		}
	}
	t.Skip("no control group with a limit of memory can be made here")
	return ""
}

// peakAnonymous converts in a new process and returns a lower bound of its peak anonymous memory: the larger of the
// largest RssAnon, sampled every few milliseconds, and its high-water mark, which misses no peak, less the most
// file-backed pages. Without maps of large files the latter is nearly the peak.
func peakAnonymous(t *testing.T, dir string, threads int, layout, head string, env ...string) (peak int64) {
	t.Helper()
	p := startProcess(t, dir, filepath.Join(filepath.Dir(dir), "out.safetensors"), threads,
		append(env, "LOWPACK_TEST_LAYOUT="+layout, "LOWPACK_TEST_HEAD="+head, "LOWPACK_TEST_STATUS=1")...)
	files := int64(0)
	for {
		select {
		case err := <-p.done:
			if err != nil {
				t.Fatalf("%v\n%s", err, p.out.String())
			}
			end := p.out.String()
			return max(peak, kernelCount(end, "VmHWM:")-max(files, kernelCount(end, "RssFile:")))
		case <-time.After(5 * time.Millisecond):
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
			peak = max(peak, kernelCount(string(status), "RssAnon:"))
			files = max(files, kernelCount(string(status), "RssFile:"))
		}
	}
}

// kernelCount returns a number of bytes from a process's status in /proc; 0 = not present.
func kernelCount(status, key string) int64 {
	for line := range strings.Lines(status) {
		if text, ok := strings.CutPrefix(line, key); ok {
			kib, _ := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// TestPeakIsSeen: a memory peak shorter than the sampling interval is measured.
func TestPeakIsSeen(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	const moment, pages = 32 << 20, 4 << 20 // pages of the program itself are read after the moment too
	dir, _ := sparse(t, 1, 256, 256, 256)
	peak := peakAnonymous(t, dir, 1, "vnni4i", "", fmt.Sprintf("LOWPACK_TEST_MOMENT=%d", moment))
	if peak < moment-pages {
		t.Errorf("%d KiB of at least %d", peak>>10, moment>>10)
	}
}
