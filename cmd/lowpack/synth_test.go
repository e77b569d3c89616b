package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// runApp runs one command as Main does, without the other commands.
func runApp(t *testing.T, command *cli.Command, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	app := newApp(strings.NewReader(""), &out, &errs)
	command.OnUsageError = onUsageError
	app.Commands = []*cli.Command{command}
	args, err := flagsFirst(app, append([]string{"lowpack", command.Name}, args...))
	if err == nil {
		err = app.Run(args)
	}
	if err != nil {
		errs.WriteString(err.Error())
	}
	return out.String(), errs.String(), exitCode(err)
}

func TestSynth(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	stdout, stderr, code := runApp(t, synthCommand(), "--like", "bitnet-2b4t", "--mini", "-o", first, "--json")
	var told struct {
		Family     string
		Parameters int64
		Files      []string
	}
	if err := json.Unmarshal([]byte(stdout), &told); err != nil || code != 0 || told.Family != "bitnet" ||
		told.Parameters == 0 || len(told.Files) != 5 {
		t.Fatalf("code %d, %v: %s%s", code, err, stdout, stderr)
	}
	// The written configuration gives the same weights; flags may follow the argument.
	if _, stderr, code := runApp(t, synthCommand(), filepath.Join(first, "config.json"), "-o", second); code != 0 ||
		!strings.Contains(stderr, "parameters") {
		t.Fatalf("code %d: %s", code, stderr)
	}
	a, err := os.ReadFile(filepath.Join(first, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(second, "model.safetensors"))
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("the same configuration and seed give other weights (%v)", err)
	}
}

func TestSynthRefuses(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	for _, c := range []struct {
		args string
		code int
		word string
	}{
		{"-o OUT", 2, "--like"},
		{"--like bitnet-2b4t", 2, "output"},
		{"-o OUT --like nothing", 2, "smollm2-135m"},
		{"-o OUT --like bitnet-2b4t config.json", 2, "cannot be combined"},
		{"-o OUT --like bitnet-2b4t --shards 2 --shard-size 1GB", 2, "cannot be combined"},
		{"-o OUT --like bitnet-2b4t --shard-size big", 2, "big"},
		{"-o OUT --like bitnet-2b4t --weights normal", 1, "declares"},
		{"-o OUT --like bitnet-2b4t --weights fp4", 2, "ternary-shards"},
		{"-o OUT --like smollm2-135m --packed --weights normal", 2, "cannot be combined"},
		{"-o DIR --like smollm2-135m --mini", 3, "exists"},
		{"-o OUT DIR/none.json", 1, "none.json"},
		{"-o OUT DIR", 2, "config.json"},
	} {
		args := strings.Fields(strings.NewReplacer("OUT", out, "DIR", dir).Replace(c.args))
		if _, stderr, code := runApp(t, synthCommand(), args...); code != c.code || !strings.Contains(stderr, c.word) {
			t.Errorf("%s: code %d, want %d with %q: %s", c.args, code, c.code, c.word, stderr)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("something was written: %v %v", entries, err)
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"5GB": 5e9, "512MiB": 512 << 20, "1.5kB": 1500, "77": 77,
		"0": 0, "-1GB": 0,
		"": 0, "GB": 0, "1e30": 0, "5 GB": 0, "NaN": 0, "5G": 0, "8B8": 0} {
		if got, err := parseSize(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q is %d (%v), want %d", text, got, err, want)
		}
	}
}
