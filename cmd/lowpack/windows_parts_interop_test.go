package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/lowpack/lowpack/internal/testkit/wait"
	"github.com/lowpack/lowpack/internal/version"
)

// same: version, packed file with golden outputs, verdicts and text equal this program's.
func (w windows) same() {
	var v struct{ Version, Go, Platform string }
	stdout, stderr, code := w.said(w.command("version", "--json"))
	err := json.Unmarshal([]byte(stdout), &v)
	if v.Version != version.Version || v.Platform != "windows/amd64" || v.Go != runtime.Version() {
		w.Errorf("%d %v\n%s%s", code, err, stdout, stderr)
	}
	w.done("convert", source, "-o", "new.st")
	w.want("new.st", w.model)
	w.both("verify", modelFile, "--source", source, "--json")
	w.both("run", modelFile, "-n", "60", "-p", "Once upon a time, моделі 模型 é", "--temperature", "0.8", "--seed", "7")
	w.both("layouts", "vnni4i")
}

// paths: paths longer than 260 characters, and in scripts of all kinds, in every notation.
func (w windows) paths() {
	for _, dir := range []string{strings.Repeat("a-name-of-thirty-two-characters-/", 10), "Модель 模型 é 🙂/"} {
		for _, f := range []string{w.path(dir), w.path(dir + source)} {
			if err := os.MkdirAll(f, 0o755); err != nil {
				w.Fatal(err)
			}
		}
		if err := os.CopyFS(w.path(dir+source), os.DirFS(w.path(source))); err != nil {
			w.Fatal(err)
		}
		for _, notation := range []string{dir, w.absolute(dir) + `\`, `\\?\` + w.absolute(dir) + `\`} {
			w.done("convert", notation+source, "-o", notation+"Новая.st", "--resume")
			w.want(dir+"Новая.st", w.model)
		}
		if err := os.Link(w.path(modelFile), w.path(dir+modelFile)); err != nil {
			w.Fatal(err)
		}
		w.both("verify", dir+modelFile, "--source", dir+source, "--json")
		w.both("run", dir+modelFile, "-n", "5", "-p", "Once upon")
		w.done("unpack", dir+modelFile, "-o", dir+"unpacked")
		if _, stderr, code := w.said(exec.Command("lowpack", "unpack", modelFile, "-o", dir+"here")); code != 0 {
			w.Fatal(stderr)
		}
		w.want(dir+"unpacked/model.safetensors", w.read(dir+"here/model.safetensors"))
		first, _, _ := strings.Cut(dir, "/")
		if err := os.RemoveAll(w.path(first)); err != nil {
			w.Fatal(err)
		}
	}
}

// names: names that Windows would interpret as a device, another file or a stream are refused before any work.
func (w windows) names() {
	w.write("old", "not to be replaced")
	w.write("old.", "a file that Windows sees only by another name")
	for _, name := range []string{"NUL", "nul.st", "CON", "aux.txt", "COM1", "LPT9.st", "COM¹", "CONOUT$",
		"old.", "old ",
		"new. .", "old::$DATA", "new:stream", "new?", `sub\NUL`, `.\con`, `\\.\NUL`, w.absolute("old."),
		`\\?\` + w.absolute("aux.st")} {
		w.refused(3, "lowpack: ", "convert", source, "-o", name)
		w.refused(3, "lowpack: ", "unpack", modelFile, "-o", name)
	}
	w.refused(3, "device", "convert", source, "-o", "aux.st")
	w.refused(3, "dots and spaces", "convert", source, "-o", "old.")
	w.refused(3, "device", "convert", source, "-o", "new.st", "--report", "com1.html")
	for _, name := range []string{"old", "old."} {
		if err := os.Remove(w.path(name)); err != nil {
			w.Fatal(err)
		}
	}
}

// inputs: an output that would overwrite an input is refused, in whatever notation it is named, and so are two outputs
// to one file.
func (w windows) inputs() {
	absolute := w.absolute(modelFile)
	slashes := strings.ReplaceAll(absolute, `\`, "/")
	for _, alias := range []string{modelFile, "MODEL.ST", `.\Model.st`, "./model.st", `checkpoint\..\model.st`,
		w.short(modelFile),
		absolute, absolute[2:], strings.ToUpper(absolute), slashes, strings.ToUpper(slashes), "//?/" + slashes,
		`\\?\` + absolute, `\\?\` + strings.ToUpper(absolute), `\\.\` + absolute} {
		w.refused(2, "is the same file as", "repack", modelFile, "--layout", "i2", "-o", alias)
	}
	for _, alias := range []string{source + `\new.st`, "CheckPoint/new.st",
		`\\?\` + w.absolute("CHECKPOINT") + `\new.st`,
		w.short(source) + `\new.st`} {
		w.refused(2, "which is read", "convert", source, "-o", alias)
	}
	for _, alias := range []string{"NEW.html", w.absolute("new.html"), `\\?\` + w.absolute("New.html")} {
		w.refused(2, "same path given for two outputs", "convert", source, "-o", "new.html", "--report", alias)
	}
}

// short is a path in names of 8.3.
func (w windows) short(name string) string {
	stdout, stderr, code := w.said(w.wine("files.exe", "short", w.absolute(name)))
	if code != 0 || !strings.Contains(stdout, "~") {
		w.Fatalf("%s: %q %s", name, stdout, stderr)
	}
	return stdout
}

// killed: a conversion whose process is killed leaves no product; the same command then makes it, byte for byte, and
// nothing else is left.
func (w windows) killed() {
	for hidden, flags := range map[string][]string{".killed.st.*.partial": nil, ".killed.st.resume": {"--resume"}} {
		args := append([]string{"convert", source, "-o", "killed.st", "--threads", "1"}, flags...)
		begun := func() bool {
			found, _ := filepath.Glob(w.path(hidden))
			if len(found) == 0 {
				return false
			}
			if flags == nil {
				info, err := os.Stat(found[0])
				return err == nil && info.Size() > 0
			}
			journal, _ := os.ReadFile(found[0] + ".journal")
			return bytes.Contains(journal, []byte(`{"tensor":`))
		}
		for !w.kill(begun, args) { // it was faster
			if err := os.Remove(w.path("killed.st")); err != nil {
				w.Fatal(err)
			}
		}
		if !begun() {
			w.Errorf("%q: nothing was left in the midst of it", args)
		}
		w.done(args...)
		w.want("killed.st", w.model)
		if left, err := filepath.Glob(w.path(".*")); err != nil || len(left) > 0 {
			w.Errorf("%q: left behind: %q, %v", args, left, err)
		}
	}
}

// kill kills a conversion to killed.st once it has begun, and reports whether it was killed before its end.
func (w windows) kill(begun func() bool, args []string) bool {
	cmd := w.command(args...)
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	wait.For(w, "something to be written", func() bool { return begun() || closed(ended) })
	cmd.Process.Kill()
	<-ended
	_, err := os.Stat(w.path("killed.st"))
	return err != nil
}

// held: a target that another process has open is refused, before any work if that is known, and replaced once it is
// closed.
func (w windows) held() {
	const old = "the old file"
	w.write("held.st", old)
	const early, late = "cannot be replaced", "was not changed"
	for verb, why := range map[string]string{"open": early, "lock": early, "share": late} {
		release := w.hold(verb, "held.st")
		w.refused(3, "held.st is open in another process, such as lowpack serve, ", "convert", source, "-o", "held.st")
		w.refused(3, why, "repack", modelFile, "--layout", "i2", "-o", "HELD.ST")
		release()
	}
	if got := string(w.read("held.st")); got != old {
		w.Errorf("%q", got)
	}
	w.done("convert", source, "-o", "held.st")
	w.want("held.st", w.model)
}

// served: a server gives the same answers as here, and continues after a conversion onto its model is refused.
func (w windows) served() {
	const path = "/v1/completions"
	const body = `{"prompt": "Once upon a time", "max_tokens": 20, "logprobs": 3, "temperature": 0.8, "seed": 7}`
	want := serveFile(w.T, "", w.path(modelFile)).ask(path, body)
	s := serveBy(w.T, w.command("serve", modelFile, "--port", "0"), "")
	for range 2 {
		if got := s.ask(path, body); got != want {
			w.Errorf("%s\nhere\n%s", got, want)
		}
		w.refused(3, "cannot be replaced", "convert", source, "--layout", "i2", "-o", modelFile)
	}
	s.cmd.Process.Kill()
	<-s.end
	w.done("convert", source, "-o", modelFile)
}
